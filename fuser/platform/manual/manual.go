// Package manual writes the documentation of a program's command line: manual page, Markdown reference and completion
// scripts.
//
//  1. The source is kong's model of the program, which kong parses by and prints its help from. Program adds what the
//     model lacks.
//  2. sections lists the program and its visible commands, and groups their flags by heading.
//  3. shared finds the groups that several commands have. Man and Markdown explain them once.
//  4. Man, Markdown and Completion write the texts. Flag prints them for programs without commands.
package manual

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Program is what kong's model lacks.
type Program struct {
	Name        string
	Description string // a paragraph; its first sentence is a summary
	Exits       []Exit
}

// Exit is an exit code.
type Exit struct {
	Code    int
	Meaning string
}

// Help is the description for kong, with the exit codes.
func (p Program) Help() string {
	var b strings.Builder
	b.WriteString(p.Description + "\n\nExit codes:\n\n")
	for _, e := range p.Exits {
		fmt.Fprintf(&b, "    %d  %s\n", e.Code, e.Meaning)
	}
	return b.String()
}

// section is a command, or the program itself.
type section struct {
	*kong.Node
	path  string // "triskele curation list"
	depth int    // 0 for the program
}

// sections are the program and its visible commands, parents first.
func sections(model *kong.Application) (out []section) {
	var walk func(*kong.Node, string, int)
	walk = func(node *kong.Node, path string, depth int) {
		out = append(out, section{node, path, depth})
		for _, child := range node.Children {
			if !child.Hidden {
				walk(child, path+" "+child.Name, depth+1)
			}
		}
	}
	walk(model.Node, model.Name, 0)
	return out
}

// usage is the usage line of a command.
func (s section) usage() string {
	text := s.path
	for _, flag := range s.flags() {
		if flag.Required {
			text += " " + flag.Summary()
		}
	}
	for _, arg := range s.Positional {
		text += " " + argument(arg)
	}
	if len(s.Children) > 0 {
		text += " COMMAND"
	}
	if len(s.flags()) > 0 {
		text += " [flags]"
	}
	return text
}

// flags are the command's own visible flags.
func (s section) flags() []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(s.Flags), func(f *kong.Flag) bool { return f.Hidden })
}

// group is a command's flags under one heading, "" for none.
type group struct {
	title string
	flags []*kong.Flag
}

// groups are the command's flags by heading, those without one first.
func (s section) groups() (out []group) {
	out = append(out, group{})
	for _, flag := range s.flags() {
		title := ""
		if flag.Group != nil {
			title = strings.TrimSuffix(flag.Group.Title, ":")
		}
		i := slices.IndexFunc(out, func(g group) bool { return g.title == title })
		if i < 0 {
			i = len(out)
			out = append(out, group{title: title})
		}
		out[i].flags = append(out[i].flags, flag)
	}
	return out
}

// text identifies a group.
func (g group) text() string {
	var b strings.Builder
	b.WriteString(g.title)
	for _, flag := range g.flags {
		fmt.Fprintf(&b, "\n%s %s %q", flag, help(flag.Value), flag.Default)
	}
	return b.String()
}

// shared returns the groups that several commands have, word for word, each once.
func shared(all []section) (out []group) {
	count := map[string]int{}
	for _, s := range all {
		for _, g := range s.groups() {
			text := g.text()
			if count[text]++; count[text] == 2 && g.title != "" {
				out = append(out, g)
			}
		}
	}
	return out
}

// in reports whether a group is among others.
func (g group) in(others []group) bool {
	text := g.text()
	return slices.ContainsFunc(others, func(other group) bool { return other.text() == text })
}

// help is a value's help with its environment variables.
func help(v *kong.Value) string { return kong.DefaultHelpValueFormatter(v) }

// choices are the values of an enumeration, nil for others.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
}

// kind is what a value names: "file", "dir", or "" for others.
func kind(v *kong.Value, placeholder string) string {
	switch {
	case placeholder == "DIR":
		return "dir"
	case placeholder == "FILE" || placeholder == "PATH" || v.Tag.Type == "filecontent" || v.Tag.Type == "path" || v.Name == "file" || v.Name == "source":
		return "file"
	}
	return ""
}

// takesValue reports whether a flag has a value.
func takesValue(flag *kong.Flag) bool { return !flag.IsBool() && !flag.IsCounter() }

// argument is an argument's placeholder, in brackets if optional.
func argument(arg *kong.Value) string {
	text := strings.ToUpper(arg.Name)
	if arg.IsCumulative() {
		text += "..."
	}
	if !arg.Required {
		text = "[" + text + "]"
	}
	return text
}

// placeholder is that of a flag's value.
func placeholder(flag *kong.Flag) string {
	return cmp.Or(strings.Join(choices(flag.Value), "|"), flag.PlaceHolder, strings.ToUpper(flag.Name))
}

// spellings are a flag's long names.
func spellings(flag *kong.Flag) []string {
	names := []string{"--" + flag.Name}
	if flag.Tag.Negatable != "" {
		names = append(names, "--no-"+flag.Name)
	}
	return names
}

// sentence is the first of a text.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(strings.TrimSpace(first), ".")
}
