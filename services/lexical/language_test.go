package lexical

import (
	"slices"
	"testing"
)

func TestStopWordsAreNormalized(t *testing.T) {
	for name, words := range stopWords {
		if _, known := languages[name]; !known || len(words) < 50 {
			t.Errorf("%q has %d stop words, want a known language with 50 or more", name, len(words))
		}
		for word := range words {
			if normalize(word) != word {
				t.Errorf("%s: %q is not normalized", name, word)
			}
		}
	}
}

func TestStopWordsOfAQuery(t *testing.T) {
	for _, x := range []struct {
		language, text string
		want           []string
	}{
		{"english", "Where is the key of the cellar?", []string{"key", "cellar"}},
		{"english", "Wo ist der Schlüssel für den Keller?", []string{"schlussel", "keller"}},
		{"english", "Où est la clé de la cave ?", []string{"cle", "cave"}},
		{"english", "Где находится ключ от подвала и что он открывает?", []string{"находится", "ключ", "подвала", "открывает"}},
		{"english", "the man who died in the war", []string{"man", "die", "war"}}, // two of the words are German stop words
		{"english", "whats the staging db port", []string{"stage", "db", "port"}},
		{"english", "Las Vegas", []string{"las", "vega"}}, // one is not enough
		{"german", "where is the key of the cellar", []string{"key", "cellar"}},
		{"german", "Wo ist der Schlüssel?", []string{"schlussel"}},
		{"simple", "where is the key", []string{"key"}},
		{"english", "was ist das", []string{"was", "ist", "das"}}, // there are no others
	} {
		var got []string
		for _, term := range understand(x.text, Settings{Language: x.language}).terms {
			got = append(got, term.term)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: terms of %q are %q, want %q", x.language, x.text, got, x.want)
		}
	}
}
