// Package render draws answers for people at a terminal: rankings, memories, tables, the waterfall of a trace. It returns text
// and prints nothing.
//
// Each drawing is a method of Style, which knows the reader's width and whether there is colour. Text from memories passes
// three steps: Plain or Lines removes control characters, wrap or fit measures and breaks it in terminal columns, and paint
// adds colour last, since colour codes have no width.
package render

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

const (
	defaultWidth = 80
	leastWidth   = 40
	// mostWidth keeps lines readable on a very wide terminal.
	mostWidth = 140
)

// Style has the properties of the output that drawings depend on.
type Style struct {
	Colour   bool
	Terminal bool // tables are shortened to fit
	Width    int  // in columns; 0 means 80
}

// Palette says when to use colour.
type Palette string

const (
	Auto   Palette = "auto" // on a terminal
	Always Palette = "always"
	Never  Palette = "never"
)

// StyleOf returns the style for an output: with the width of a terminal, or of 80 columns elsewhere.
func StyleOf(out io.Writer, palette Palette) Style {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Style{Width: defaultWidth, Colour: palette == Always}
	}
	style := Style{Colour: palette == Always || palette != Never && runtime.GOOS != "windows", Terminal: true, Width: defaultWidth}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		style.Width = width
	}
	return style
}

func (s Style) width() int {
	if s.Width == 0 {
		return defaultWidth
	}
	return min(max(s.Width, leastWidth), mostWidth)
}

func (s Style) paint(code, text string) string {
	if !s.Colour || text == "" || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for headings.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Dim is for details.
func (s Style) Dim(text string) string { return s.paint("2", text) }

// Good is green.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Warn is yellow.
func (s Style) Warn(text string) string { return s.paint("33", text) }

// Bad is red.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Plain makes foreign text safe to print in one line. It removes control characters, which could steer a terminal, and turns
// each run of white space into one space.
func Plain(text string) string {
	return strings.Join(strings.Fields(Lines(text)), " ")
}

// Lines makes foreign text safe to print, like Plain, but keeps lines and indentation.
func Lines(text string) string {
	return strings.Map(visible, text)
}

// visible returns the safe character for another: a space for a control character, -1 for a bidirectional control.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case unicode.IsControl(r):
		return ' '
	case unicode.Is(unicode.Bidi_Control, r):
		return -1
	}
	return r
}

// wrap breaks text at spaces into at most n lines of the given width. If text is left over, the last line ends in an
// ellipsis. For n = 0 there is no limit.
func wrap(text string, width, n int) (lines []string) {
	text = Plain(text)
	for _, l := range wrapped(text, width, n) {
		line := text[l.from:l.to]
		if l.more {
			line += "…"
		}
		lines = append(lines, line)
	}
	return lines
}

type line struct {
	span
	more bool // an ellipsis follows: the rest of the text is not shown
}

// wrapped returns the places of the lines that wrap makes of a plain text.
func wrapped(text string, width, n int) (lines []line) {
	for from := 0; from < len(text); {
		rest := text[from:]
		cut := within(rest, width) // breaks a word that is longer than the line
		if cut == len(rest) {
			return append(lines, line{span: span{from, len(text)}})
		}
		if len(lines)+1 == n {
			shown := strings.TrimRight(rest[:within(rest, width-1)], " ")
			return append(lines, line{span{from, from + len(shown)}, true})
		}
		if rest[cut] != ' ' {
			if space := strings.LastIndexByte(rest[:cut], ' '); space > 0 {
				cut = space
			}
		}
		lines = append(lines, line{span: span{from, from + cut}})
		from += cut + len(rest[cut:]) - len(strings.TrimLeft(rest[cut:], " "))
	}
	return lines
}

// fit pads or shortens text to exactly width columns.
func fit(text string, width int) string {
	if columns(text) > width {
		text = text[:within(text, width-1)] + "…"
	}
	return text + strings.Repeat(" ", width-columns(text))
}

// columns returns the number of terminal columns of a text. East Asian characters take two each.
func columns(text string) int {
	return uniseg.StringWidth(text)
}

// within returns how many bytes of text, in whole characters, fit into width columns. It is at least the first character.
func within(text string, width int) int {
	n, taken, state := 0, 0, -1
	for rest := text; rest != ""; {
		var character string
		var w int
		character, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if taken += w; taken > width && n > 0 {
			break
		}
		n += len(character)
	}
	return n
}

// block writes a text in at most n lines, as wrap does, with an indent. paint, if not nil, colours them.
func (s Style) block(b *strings.Builder, text string, indent, n int, paint func(string) string) {
	for _, line := range wrap(text, s.width()-indent, n) {
		if paint != nil {
			line = paint(line)
		}
		b.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
}

// Paragraph wraps text to the style's width.
func (s Style) Paragraph(text string) string {
	return s.Hanging(text, 0) + "\n"
}

// Hanging wraps a text that begins at column indent to the output's width. All lines but the first are indented.
func (s Style) Hanging(text string, indent int) string {
	return strings.Join(wrap(text, s.width()-indent, 0), "\n"+strings.Repeat(" ", indent))
}

// Duration formats a time span with about three digits.
func Duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
