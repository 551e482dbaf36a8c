package graph

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// titleEnd matches the separator of a tagline, a subtitle or a disambiguation.
var titleEnd = regexp.MustCompile(`\s+[-–—|]\s+|:\s+|\s+\(`)

// titleHead returns the name before titleEnd, or "".
func titleHead(title string) string {
	at := titleEnd.FindStringIndex(title)
	if at == nil {
		return ""
	}
	head := strings.TrimSpace(title[:at[0]])
	if ws := words(head, maxRunWords+1); len(ws) == 0 || len(ws) > maxRunWords || len(ws) == 1 && (stopWord(ws[0].fold) || commonWords[ws[0].fold]) {
		return ""
	}
	return head
}

// abbreviation is a short form in brackets: American Psychological Association (APA).
type abbreviation struct{ full, short string }

// abbreviations finds short forms that match the initials before them, with or without connectors.
func abbreviations(ws []word) []abbreviation {
	var out []abbreviation
	for i, w := range ws {
		letters := utf8.RuneCountInString(w.raw)
		if w.gap != " (" || w.next != ')' || letters < 2 || letters > maxNameWords || strings.ToUpper(w.raw) != w.raw {
			continue
		}
		for j := i - 1; j >= max(0, i-maxNameWords); j-- {
			if j < i-1 && ws[j+1].gap != " " && ws[j+1].gap != " & " {
				break
			}
			if initials := initialsOf(ws[j:i]); capitalised(ws[j].raw) && (initials[0] == w.raw || initials[1] == w.raw) {
				out = append(out, abbreviation{joined(ws[j:i]), w.raw})
				break
			}
		}
	}
	return out
}

// initialsOf returns the upper-case initials of all words, and those without connectors.
func initialsOf(ws []word) [2]string {
	var all, content strings.Builder
	for _, w := range ws {
		r, _ := utf8.DecodeRuneInString(w.raw)
		all.WriteRune(unicode.ToUpper(r))
		if !connectors[w.fold] && !stopWord(w.fold) {
			content.WriteRune(unicode.ToUpper(r))
		}
	}
	return [2]string{all.String(), content.String()}
}

// nounPhrases returns runs of two or three lower-case words between stop words, common words and punctuation, as RAKE does (Rose et
// al., "Automatic keyword extraction from individual documents", 2010).
func nounPhrases(ws []word) []string {
	var out []string
	var run []word
	flush := func() {
		if len(run) == 2 || len(run) == 3 {
			out = append(out, joined(run))
		}
		run = run[:0]
	}
	for i, w := range ws {
		plain := w.raw == strings.ToLower(w.raw) && utf8.RuneCountInString(w.raw) > 2 && !stopWord(w.fold) && !commonWords[w.fold] &&
			!opens(w.fold) && strings.IndexFunc(w.raw, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }) < 0
		if i == 0 || w.gap != " " || !plain {
			flush()
		}
		if plain {
			run = append(run, w)
		}
	}
	flush()
	return out
}
