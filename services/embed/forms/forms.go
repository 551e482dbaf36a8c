// Package forms lists other forms of English words, which the legs take for the words: what an abbreviation or a short name stands for,
// synonyms, spellings of other countries, and irregular forms.
package forms

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	// MaxWords is the most words of a form.
	MaxWords = 4
	// MaxVaried bounds the words of a text whose other forms are looked for: the first ones of a long text.
	MaxVaried = 32
)

//go:embed forms.txt
var file string

// Lines returns the forms that mean the same, by line. A form is lower-case words with spaces between them.
var Lines = sync.OnceValue(func() (lines [][]string) {
	for line := range strings.Lines(file) {
		lines = append(lines, strings.Split(strings.TrimSpace(line), ", "))
	}
	return lines
})

// phrases are the forms of several words, by the words that mean the same.
var phrases = sync.OnceValue(func() map[string][]string {
	found := map[string][]string{}
	for _, line := range Lines() {
		for _, form := range line {
			for _, other := range line {
				if !strings.Contains(form, " ") && strings.Contains(other, " ") {
					found[form] = append(found[form], other)
				}
			}
		}
	}
	return found
})

// WriteOut returns a text followed by the forms of several words that its words have. Most are what acronyms stand for: embedders rarely know
// these. Forms of one word are not added, as embedders know most of them. Two letters count in capitals alone: "os" and "ai" are words of other
// languages.
func WriteOut(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var seen []string
	for _, written := range words[:min(len(words), MaxVaried)] {
		word := strings.ToLower(written)
		if !slices.Contains(seen, word) && (len(word) > 2 || written == strings.ToUpper(written)) {
			seen = append(seen, word)
			text = strings.Join(append([]string{text}, phrases()[word]...), " ")
		}
	}
	return text
}
