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
	Colour bool
	Width  int // in columns; 0 means 80
}

// StyleOf suits what is written to: colour and full width on a terminal, neither elsewhere.
func StyleOf(out io.Writer, noColour bool) Style {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Style{Width: defaultWidth}
	}
	style := Style{Colour: !noColour && runtime.GOOS != "windows", Width: defaultWidth}
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
	if !s.Colour || text == "" {
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
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, text)
}

// wrap breaks text at spaces into at most n lines of the given width, the last one ending in an ellipsis if text is left
// over. 0 lines means as many as it takes.
func wrap(text string, width, n int) []string {
	var lines []string
	rest := []rune(Plain(text))
	for len(rest) > 0 {
		if len(rest) <= width {
			return append(lines, string(rest))
		}
		if len(lines)+1 == n {
			return append(lines, strings.TrimRight(string(rest[:width-1]), " ")+"…")
		}
		cut := width // a word longer than the line is broken
		for i := width; i > 0; i-- {
			if rest[i] == ' ' {
				cut = i
				break
			}
		}
		lines = append(lines, string(rest[:cut]))
		rest = []rune(strings.TrimLeft(string(rest[cut:]), " "))
	}
	return lines
}

// fit pads or shortens text to exactly width columns.
func fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

// Paragraph is text wrapped to the style's width.
func (s Style) Paragraph(text string) string {
	return strings.Join(wrap(text, s.width(), 0), "\n") + "\n"
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
