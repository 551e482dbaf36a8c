package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Man returns the page in man(7) for a section of the manual: 1 is for commands, 8 for services.
func (p Program) Man(model *kong.Application, of int) string {
	all := sections(model)
	common := shared(all)
	var b strings.Builder
	heading := map[int]string{1: "User Commands", 8: "System Administration"}[of]
	fmt.Fprintf(&b, ".TH %s %d \"\" Triskele \"%s\"\n", strings.ToUpper(p.Name), of, heading)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", p.Name, roff(sentence(p.Description)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", p.Name, roff(strings.TrimPrefix(all[0].usage(), p.Name+" ")))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(p.Description))
	b.WriteString(".SH OPTIONS\n")
	for _, g := range all[0].groups() {
		if g.title != "" {
			fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
		}
		manFlags(&b, g.flags)
	}
	if len(all) > 1 {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, s := range all[1:] {
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff(strings.TrimPrefix(s.usage(), p.Name+" ")), roff(s.Help))
		manText(&b, s.Detail)
		for _, arg := range s.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(argument(arg)), roff(help(arg)))
		}
		for _, g := range s.groups() {
			switch {
			case g.in(common):
				fmt.Fprintf(&b, ".P\nAlso the flags of \\(lq%s\\(rq below.\n", roff(g.title))
			case g.title != "":
				fmt.Fprintf(&b, ".P\n%s:\n", roff(g.title))
				fallthrough
			default:
				manFlags(&b, g.flags)
			}
		}
	}
	if len(common) > 0 {
		b.WriteString(".SH FLAGS OF SEVERAL COMMANDS\n")
	}
	for _, g := range common {
		fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
		manFlags(&b, g.flags)
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range p.Exits {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.Code, roff(e.Meaning))
	}
	b.WriteString(".SH ENVIRONMENT\nA flag overrides its environment variable, which overrides the configuration file, which overrides the default.\n")
	fmt.Fprintf(&b, ".SH FILES\n.TP\n.I ~/.config/triskele/%[1]s.yaml\n.TQ\n.I /etc/triskele/%[1]s.yaml\nConfiguration files, in YAML. The first that exists is read, unless --config names another. "+
		"A setting at the top level has its variable's name without TRISKELE_, in lower case and with hyphens.\n", roff(p.Name))
	return b.String()
}

func manFlags(b *strings.Builder, flags []*kong.Flag) {
	for _, flag := range flags {
		name := strings.Join(spellings(flag), ", ")
		if flag.Short != 0 {
			name = fmt.Sprintf("-%c, %s", flag.Short, name)
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
		if takesValue(flag) {
			fmt.Fprintf(b, "=\\fI%s\\fR", roff(placeholder(flag)))
		}
		fmt.Fprintf(b, "\n%s\n", roff(help(flag.Value)))
		if flag.Default != "" {
			b.WriteString(roff("Default: "+flag.Default) + "\n")
		}
	}
}

// manText writes paragraphs. Indented lines stay as they are.
func manText(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, "    "):
			b.WriteString(".P\n.EX\n")
			for line := range strings.SplitSeq(paragraph, "\n") {
				b.WriteString(roff(line) + "\n")
			}
			b.WriteString(".EE\n")
		default:
			b.WriteString(".P\n" + roff(paragraph) + "\n")
		}
	}
}

// roff escapes text: no line is a request, and hyphens are those of commands.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
