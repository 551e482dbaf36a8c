// Package render draws answers for people at a terminal: rankings, memories, the waterfall of a trace. It returns text
// and neither prints nor calls anything.
package render

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

const (
	defaultWidth = 80
	leastWidth   = 40
	// mostWidth keeps lines readable on a very wide terminal.
	mostWidth = 140
)

// Style is how to draw for one reader.
type Style struct {
	Colour   bool
	Terminal bool // tables are made to fit
	Width    int  // in columns; 0 means 80
}

// Palette says when to use colour.
type Palette string

// Palettes.
const (
	Auto   Palette = "auto" // on a terminal
	Always Palette = "always"
	Never  Palette = "never"
)

// StyleOf suits what is written to: colour and the terminal's width on a terminal, neither elsewhere.
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

// Dim is for what can be skipped.
func (s Style) Dim(text string) string { return s.paint("2", text) }

// Good is green.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Warn is yellow.
func (s Style) Warn(text string) string { return s.paint("33", text) }

// Bad is red.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Plain makes text of others safe to print: without the control characters that could steer a terminal, and with runs of
// white space as one space.
func Plain(text string) string {
	return strings.Join(strings.Fields(Lines(text)), " ")
}

// Lines is Plain, but for the white space: it keeps lines and what they begin with.
func Lines(text string) string {
	return strings.Map(visible, text)
}

// visible is the character to print in place of one: a space for what would steer a terminal, -1 for nothing.
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

// wrap breaks text at spaces into at most n lines of the given width, the last one ending in an ellipsis if text is left
// over. 0 lines means as many as it takes.
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

// line is a part of a text, with an ellipsis after it if more follows that is not shown.
type line struct {
	span
	more bool
}

// wrapped is wrap for text that is plain already: where its lines are.
func wrapped(text string, width, n int) (lines []line) {
	for from := 0; from < len(text); {
		rest := text[from:]
		cut := within(rest, width) // a word longer than the line is broken
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

// columns is how many columns of a terminal text takes: two for each character of East Asia.
func columns(text string) int {
	if ascii(text) {
		return len(text)
	}
	return uniseg.StringWidth(text)
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// within is how many bytes of text, in whole characters, take width columns at most; the first character's at least.
func within(text string, width int) int {
	if ascii(text[:min(len(text), width+1)]) {
		return min(len(text), max(width, 1))
	}
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

// Paragraph is text wrapped to the style's width.
func (s Style) Paragraph(text string) string {
	return strings.Join(wrap(text, s.width(), 0), "\n") + "\n"
}

// Hanging is text to be written behind indent columns: on a terminal the lines that fit, all but the first indented;
// elsewhere one line.
func (s Style) Hanging(text string, indent int) []string {
	if !s.Terminal {
		return []string{Plain(text)}
	}
	lines := wrap(text, s.width()-indent, 0)
	for i := range lines[min(1, len(lines)):] {
		lines[i+1] = strings.Repeat(" ", indent) + lines[i+1]
	}
	return lines
}

// Duration is a time span with the precision that people compare.
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
