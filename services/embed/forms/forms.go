// Package forms lists other forms of English words, which the legs take for the words: what an abbreviation or a short name stands for,
// synonyms, spellings of other countries, and irregular forms.
package forms

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/triskele/triskele/services/embed/tokens"
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

// WriteOut returns a text followed by what its acronyms stand for: embedders rarely know them. Other forms are not added, as embedders know
// most of these words.
func WriteOut(text string) string {
	folded := tokens.Fold(nil, text)
	var seen []string
	for start, end := tokens.Next(folded, 0); start < end && len(seen) < MaxVaried; start, end = tokens.Next(folded, end) {
		word := string(folded[start:end])
		if !slices.Contains(seen, word) {
			text = strings.Join(append([]string{text}, phrases()[word]...), " ")
		}
		seen = append(seen, word)
	}
	return text
}
