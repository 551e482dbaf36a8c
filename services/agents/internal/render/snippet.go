package render

import (
	"cmp"
	"slices"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// before is how many columns of text a snippet shows before its first match, if it does not begin at the text's start.
const before = 16

type span struct{ from, to int }

// snippet draws a memory's title and the part of its text with the most matches, and colours the matches.
func (s Style) snippet(hit *triskelev1.Hit, width, lines int) []string {
	m := hit.GetMemory()
	content, matches := marked(m.GetContent(), hit.GetMatches().GetContent())
	title, titleMatches := marked(m.GetTitle(), hit.GetMatches().GetTitle())
	if title == "" || strings.HasPrefix(content, title) {
		shown := s.window(content, &matches, width*lines)
		if shown != content {
			title = "" // it stands before what is shown
		}
		return s.highlight(shown, span{0, len(title)}, matches, width, lines)
	}
	head := title + ": "
	content = s.window(content, &matches, width*lines-columns(head))
	for i := range matches {
		matches[i].from += len(head)
		matches[i].to += len(head)
	}
	return s.highlight(head+content, span{0, len(title)}, append(titleMatches, matches...), width, lines)
}

// marked returns Plain of a text, and the ranges translated to it, sorted by start.
func marked(text string, ranges []*triskelev1.TextRange) (plain string, out []span) {
	plain = Plain(text)
	for _, r := range ranges {
		from, to := int(r.GetStart()), int(r.GetEnd())
		if from < 0 || from >= to || to > len(text) {
			continue
		}
		at := span{len(Plain(text[:from])), min(len(Plain(text[:to])), len(plain))}
		if at.from < at.to && plain[at.from] == ' ' {
			at.from++
		}
		if at.from < at.to {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return plain, out
}

// window returns the text from the place on whose next size columns have the most matches. It shifts the matches to fit.
func (s Style) window(text string, matches *[]span, size int) string {
	if size <= 0 || within(text, size) == len(text) {
		return text
	}
	best, most := 0, 0
	for _, from := range append([]span{{}}, *matches...) {
		start := wordBefore(text, from.from)
		end := start + within(text[start:], size)
		count := 0
		for _, m := range *matches {
			if m.from >= start && m.to <= end {
				count++
			}
		}
		if count > most {
			best, most = start, count
		}
	}
	if best == 0 {
		return text
	}
	const cut = "… "
	kept := (*matches)[:0:0]
	for _, m := range *matches {
		if m.from >= best {
			kept = append(kept, span{m.from - best + len(cut), m.to - best + len(cut)})
		}
	}
	*matches = kept
	return cut + text[best:]
}

// wordBefore returns the start of a word some columns before a place, or 0 near the text's start.
func wordBefore(text string, at int) int {
	least := at - 4*before
	if least <= 0 {
		return 0
	}
	start := at
	for columns(text[start:at]) < before {
		space := strings.LastIndexByte(text[least:max(start-1, least)], ' ')
		if space < 0 {
			break
		}
		start = least + space + 1
	}
	return start
}

func (s Style) highlight(text string, title span, matches []span, width, lines int) (out []string) {
	codes := make([]string, len(text)) // of each byte
	fill := func(of span, code string) {
		for at := of.from; at < min(of.to, len(text)); at++ {
			codes[at] = code
		}
	}
	fill(title, "1")
	for _, m := range matches {
		fill(m, "1;33")
	}
	for _, line := range wrapped(text, width, lines) {
		var b strings.Builder
		for at, end := line.from, line.from; at < line.to; at = end {
			for end < line.to && codes[end] == codes[at] {
				end++
			}
			b.WriteString(s.paint(codes[at], text[at:end]))
		}
		if line.more {
			b.WriteString("…")
		}
		out = append(out, b.String())
	}
	return out
}
