package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Markdown returns a program's reference, with a third-level heading for each command.
func (p Program) Markdown(model *kong.Application) string {
	all := sections(model)
	common := shared(all)
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", p.Name, prose(p.Description))
	b.WriteString("| exit code | meaning |\n|---|---|\n")
	for _, e := range p.Exits {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, cell(e.Meaning))
	}
	b.WriteString("\n")
	for _, g := range all[0].groups() {
		markdownFlags(&b, g)
	}
	for _, s := range all[1:] {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n    %s\n\n", s.path, prose(s.Help), s.usage())
		if s.Detail != "" {
			b.WriteString(prose(s.Detail) + "\n\n")
		}
		if len(s.Positional) > 0 {
			b.WriteString("| argument | meaning |\n|---|---|\n")
			for _, arg := range s.Positional {
				fmt.Fprintf(&b, "| `%s` | %s |\n", argument(arg), cell(help(arg)))
			}
			b.WriteString("\n")
		}
		for _, g := range s.groups() {
			if g.in(common) {
				fmt.Fprintf(&b, "Also the [flags of “%s”](#%s).\n\n", g.title, anchor(p.heading(common, g)))
				continue
			}
			markdownFlags(&b, g)
		}
	}
	for _, g := range common {
		fmt.Fprintf(&b, "### %s\n\n", p.heading(common, g))
		markdownFlags(&b, group{flags: g.flags})
	}
	return b.String()
}

// heading is the heading of a shared group. Groups after the first of one title have a number.
func (p Program) heading(common []group, g group) string {
	heading := "Flags of several commands of " + p.Name + ": " + g.title
	n := 0
	for _, other := range common {
		if other.title == g.title {
			n++
		}
		if other.text() == g.text() {
			break
		}
	}
	if n > 1 {
		heading += fmt.Sprintf(" (%d)", n)
	}
	return heading
}

// anchor is a heading's anchor in links.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ":", "", "(", "", ")", "", ",", "").Replace(strings.ToLower(heading))
}

func markdownFlags(b *strings.Builder, g group) {
	if len(g.flags) == 0 {
		return
	}
	if g.title != "" {
		fmt.Fprintf(b, "**%s**\n\n", g.title)
	}
	b.WriteString("| flag | default | variable | meaning |\n|---|---|---|---|\n")
	for _, flag := range g.flags {
		name := strings.Join(spellings(flag), ", ")
		if flag.Short != 0 {
			name = fmt.Sprintf("-%c, %s", flag.Short, name)
		}
		if takesValue(flag) {
			name += " " + placeholder(flag)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(name), code(flag.Default), code(strings.Join(flag.Tag.Envs, ", ")), cell(flag.Help))
	}
	b.WriteString("\n")
}

// prose escapes markup. Paragraphs and indented lines stay.
func prose(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "    ") {
			line = escape(line)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func escape(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`).Replace(text)
}

// cell escapes a text for a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(escape(text))
}

// code is a table's text as code.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.NewReplacer("|", `\|`, "\n", " ").Replace(text) + "`"
}
