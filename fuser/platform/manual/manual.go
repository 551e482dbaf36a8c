// Package manual writes the documentation of a program's command line: manual page, Markdown reference and completion
// scripts.
//
//  1. The source is kong's model of the program, which kong parses by and prints its help from. Program adds what the
//     model lacks.
//  2. newPage lists the program and its visible commands. It finds the groups of flags that several commands have, which the
//     manual page and the reference explain once.
//  3. A template writes each form: man.tmpl, markdown.tmpl, and one for each shell. escape.go has what a form needs to take a
//     text as it is.
//  4. Man, Markdown and Completion return the texts. Flag prints them for programs without commands.
package manual

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

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

// Shells are the supported shells.
var Shells = []string{"bash", "zsh", "fish"}

// Help is the description for kong, with the exit codes.
func (p Program) Help() string {
	var b strings.Builder
	b.WriteString(p.Description + "\n\nExit codes:\n\n")
	for _, e := range p.Exits {
		fmt.Fprintf(&b, "    %d  %s\n", e.Code, e.Meaning)
	}
	return b.String()
}

// Man returns the page in man(7) for a section of the manual: 1 is for commands, 8 for services.
func (p Program) Man(model *kong.Application, of int) string {
	return newPage(p, model, of).write("man")
}

// Markdown returns a program's reference, with a third-level heading for each command.
func (p Program) Markdown(model *kong.Application) string {
	return newPage(p, model, 0).write("markdown")
}

// Completion returns a script that completes commands, flags, choices and file names in one of the Shells.
func Completion(shell string, model *kong.Application) string {
	return newPage(Program{Name: model.Name}, model, 0).write(shell)
}

// page is what the templates show.
type page struct {
	Program
	Of       int       // section of the manual
	All      []section // the program and its visible commands, parents first
	Root     section
	Commands []section // All without the program
	Common   []group   // that several commands have, word for word, each once
	headings map[string]string
}

// section is a command, or the program itself.
type section struct {
	*kong.Node
	At string // " curation list", as the scripts build it from the words of a command line
}

// group is a command's flags under one heading, "" for none.
type group struct {
	Title string
	Flags []*kong.Flag
}

func newPage(p Program, model *kong.Application, of int) *page {
	out := &page{Program: p, Of: of, headings: map[string]string{}}
	var walk func(*kong.Node, string)
	walk = func(node *kong.Node, at string) {
		out.All = append(out.All, section{node, at})
		for _, child := range visible(node) {
			walk(child, at+" "+child.Name)
		}
	}
	walk(model.Node, "")
	out.Root, out.Commands = out.All[0], out.All[1:]
	texts, titles := map[string]int{}, map[string]int{}
	for _, s := range out.All {
		for _, g := range groups(s) {
			text := g.text()
			if texts[text]++; texts[text] != 2 || g.Title == "" {
				continue
			}
			out.Common = append(out.Common, g)
			out.headings[text] = "Flags of several commands of " + p.Name + ": " + g.Title
			if titles[g.Title]++; titles[g.Title] > 1 {
				out.headings[text] += fmt.Sprintf(" (%d)", titles[g.Title])
			}
		}
	}
	return out
}

//go:embed *.tmpl
var templates embed.FS

// write fills the template of a form. Templates are read when they are used, since most runs of a program print no manual.
func (p *page) write(form string) string {
	var b strings.Builder
	t := template.Must(template.New(form+".tmpl").Funcs(functions).ParseFS(templates, form+".tmpl"))
	if err := t.Execute(&b, p); err != nil {
		panic(fmt.Sprintf("template %s: %v", form, err)) // a template does not fit this package
	}
	return b.String()
}

var functions = template.FuncMap{
	"allFlags": allFlags, "argument": argument, "groups": groups, "help": kong.DefaultHelpValueFormatter, "names": names,
	"namesFiles": namesFiles, "placeholder": placeholder, "sentence": sentence, "short": short, "spellings": spellings,
	"takesValue": takesValue, "usage": usage, "value": completed, "visible": func(s section) []*kong.Node { return visible(s.Node) },
	"words": words, "indented": indented, "join": strings.Join, "split": strings.Split, "upper": strings.ToUpper,
	"anchor": anchor, "cell": cell, "code": code, "fishText": fishText, "prose": prose, "quoted": quoted, "roff": roff,
	"zshArgument": zshArgument, "zshCommands": zshCommands, "zshFlag": zshFlag,
}

// Heading is the heading under which a group is explained that several commands have, else empty.
func (p *page) Heading(g group) string { return p.headings[g.text()] }

// Command is a section's path without the program's name.
func (s section) Command() string { return strings.TrimPrefix(s.At, " ") }

func visible(node *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(node.Children), func(child *kong.Node) bool { return child.Hidden })
}

func (s section) flags() []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(s.Flags), func(f *kong.Flag) bool { return f.Hidden })
}

// allFlags are the section's flags and those of the sections above it.
func allFlags(s section) []*kong.Flag { return slices.Concat(s.AllFlags(true)...) }

// usage is what follows the program's name in the usage line of a command.
func usage(s section) string {
	text := s.At
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
	return strings.TrimPrefix(text, " ")
}

// groups are the command's flags by heading, those without one first.
func groups(s section) []group {
	out := []group{{}}
	for _, flag := range s.flags() {
		title := ""
		if flag.Group != nil {
			title = strings.TrimSuffix(flag.Group.Title, ":")
		}
		i := slices.IndexFunc(out, func(g group) bool { return g.Title == title })
		if i < 0 {
			i = len(out)
			out = append(out, group{Title: title})
		}
		out[i].Flags = append(out[i].Flags, flag)
	}
	return out
}

func (g group) text() string {
	var b strings.Builder
	b.WriteString(g.Title)
	for _, flag := range g.Flags {
		fmt.Fprintf(&b, "\n%s %s %q", flag, kong.DefaultHelpValueFormatter(flag.Value), flag.Default)
	}
	return b.String()
}

func choices(v *kong.Value) []string {
	return slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })
}

// completion is what a shell offers for a value.
type completion struct {
	Choices string // separated by spaces
	Kind    string // "file" or "dir" if there are no choices
}

func completed(v *kong.Value, placeholder string) *completion {
	switch {
	case len(choices(v)) > 0:
		return &completion{Choices: strings.Join(choices(v), " ")}
	case placeholder == "DIR":
		return &completion{Kind: "dir"}
	case placeholder == "FILE" || placeholder == "PATH" || v.Tag.Type == "filecontent" || v.Tag.Type == "path" || v.Name == "file" || v.Name == "source":
		return &completion{Kind: "file"}
	}
	return nil
}

// namesFiles reports whether one of the arguments is a file or a folder.
func namesFiles(args []*kong.Value) bool {
	return slices.ContainsFunc(args, func(arg *kong.Value) bool { c := completed(arg, ""); return c != nil && c.Kind != "" })
}

// words are the commands and flags that may follow a section.
func words(s section) string {
	var words []string
	for _, child := range visible(s.Node) {
		words = append(words, child.Name)
	}
	for _, flag := range allFlags(s) {
		words = append(words, spellings(flag)...)
	}
	return strings.Join(words, " ")
}

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

// placeholder is that of a flag's value, or empty for a flag without one.
func placeholder(flag *kong.Flag) string {
	if !takesValue(flag) {
		return ""
	}
	return cmp.Or(strings.Join(choices(flag.Value), "|"), flag.PlaceHolder, strings.ToUpper(flag.Name))
}

func spellings(flag *kong.Flag) []string {
	names := []string{"--" + flag.Name}
	if flag.Tag.Negatable != "" {
		names = append(names, "--no-"+flag.Name)
	}
	return names
}

func short(flag *kong.Flag) string {
	if flag.Short == 0 {
		return ""
	}
	return fmt.Sprintf("-%c", flag.Short)
}

func names(flag *kong.Flag) string {
	all := spellings(flag)
	if flag.Short != 0 {
		all = slices.Insert(all, 0, short(flag))
	}
	return strings.Join(all, ", ")
}

func sentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(strings.TrimSpace(first), ".")
}

// Flag prints the manual page ("man"), the reference ("markdown") or a shell's completion script, and exits. It is
// for programs without commands for it. Bind the Program.
type Flag string

// BeforeReset implements kong's interface. It runs before any check.
func (Flag) BeforeReset(ctx *kong.Context, trace *kong.Path, p Program) error {
	var text string
	switch form := string(ctx.FlagValue(trace.Flag).(Flag)); {
	case form == "man":
		text = p.Man(ctx.Model, 8)
	case form == "markdown":
		text = p.Markdown(ctx.Model)
	case slices.Contains(Shells, form):
		text = Completion(form, ctx.Model)
	default:
		return fmt.Errorf("--%s must be man, markdown or one of %v", trace.Flag.Name, Shells)
	}
	if _, err := ctx.Stdout.Write([]byte(text)); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}
