package manual

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Each form has its own rules for a text to be taken as it is.
var (
	quotes       = strings.NewReplacer("'", `'\''`)
	fishQuotes   = strings.NewReplacer(`\`, `\\`, "'", `\'`)
	zshMarks     = strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`)
	doubleQuotes = strings.NewReplacer(`"`, `\"`, "`", "\\`", "$", `\$`)
	roffMarks    = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ")
	markup       = strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`)
	cellMarks    = strings.NewReplacer("|", `\|`, "\n", " ")
	anchorMarks  = strings.NewReplacer(" ", "-", ":", "", "(", "", ")", "", ",", "")
)

// quoted is text as one word of any of the shells.
func quoted(text string) string { return "'" + quotes.Replace(text) + "'" }

// fishText is the first sentence of a text as one word of fish, whose quotes take \\ and \'.
func fishText(text string) string { return "'" + fishQuotes.Replace(sentence(text)) + "'" }

// zshFlag is one spelling of a flag for _arguments.
func zshFlag(flag *kong.Flag, spelling string) string {
	end := ""
	if takesValue(flag) {
		if strings.HasPrefix(spelling, "--") {
			spelling += "="
		}
		end = ":" + zshMarks.Replace(flag.Name) + ":" + zshValue(flag.Value, flag.PlaceHolder)
	}
	again := ""
	if flag.IsCumulative() {
		again = "*"
	}
	return again + spelling + "[" + zshMarks.Replace(sentence(flag.Help)) + "]" + end
}

func zshCommands(s section) string {
	var lines []string
	for _, child := range visible(s.Node) {
		lines = append(lines, zshMarks.Replace(child.Name)+`\:"`+doubleQuotes.Replace(zshMarks.Replace(sentence(child.Help)))+`"`)
	}
	return ":command:((" + strings.Join(lines, " ") + "))"
}

func zshArgument(arg *kong.Value) string {
	times := ":"
	if arg.IsCumulative() {
		times = "*:"
	}
	return times + zshMarks.Replace(arg.Name) + ":" + zshValue(arg, "")
}

func zshValue(v *kong.Value, placeholder string) string {
	switch c := completed(v, placeholder); {
	case c == nil:
		return ""
	case c.Choices != "":
		return "(" + c.Choices + ")"
	case c.Kind == "dir":
		return "_files -/"
	}
	return "_files"
}

// roff escapes text: no line is a request, and hyphens are those of commands.
func roff(text string) string {
	text = roffMarks.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func indented(text string) bool { return strings.HasPrefix(text, "    ") }

// prose escapes markup. Paragraphs and indented lines stay.
func prose(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !indented(line) {
			lines[i] = markup.Replace(line)
		}
	}
	return strings.Join(lines, "\n")
}

func anchor(heading string) string { return anchorMarks.Replace(strings.ToLower(heading)) }

func cell(text string) string { return cellMarks.Replace(markup.Replace(text)) }

func code(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "`" + cellMarks.Replace(text) + "`"
}
