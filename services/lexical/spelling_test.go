package lexical

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
)

func TestOneEdit(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"deploy", "deplyo", true},
		{"deploy", "dploy", true},
		{"deploy", "deployy", true},
		{"deploy", "deplox", true},
		{"deploy", "deploying", false},
		{"deploy", "depyol", false},
		{"deploy", "deploy", false},
		{"deploy", "eploy", false},
		{"deploy", "xeploy", false},
		{"deploy", "edploy", false},
		{"deploy", "dxplxy", false},
		{"ab", "abc", true},
		{"ab", "abcd", false},
		{"", "a", false},
		{"", "", false},
		{"größe", "grüße", true},
		{"größe", "gröeß", true},
		{"größe", "grÖse", false},
		{"сервер", "сервор", true},
		{"сервер", "серевр", true},
		{"日本", "日木", true},
		{"本日", "木日", false}, // the first characters differ, and share bytes
	} {
		for _, words := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := oneEdit(words[0], words[1]); got != c.want {
				t.Errorf("oneEdit(%q, %q) is %v, want %v", words[0], words[1], got, c.want)
			}
		}
		if c.want && bits.OnesCount32(letterSet(c.a)^letterSet(c.b)) > 2 {
			t.Errorf("the letters of %q and %q differ in more than two bits", c.a, c.b)
		}
	}
}

// imageOf returns an image of some texts.
func imageOf(s Settings, texts ...string) *image {
	m, w := newImage(s), newWriter(1, 10)
	for _, text := range texts {
		r := w.record()
		r.Title, r.Content, r.Keywords, r.Tags, r.SupersededBy = "", text, nil, nil, uuid.Nil
		m.put(r)
	}
	return m
}

// A misspelt word counts as the word that it is one edit away from.
func TestMisspelt(t *testing.T) {
	m := imageOf(DefaultSettings(), "the kubernetes cluster in Nuremberg", "kubernetes costs too much", "a cluster of grapes", "weeding the garden", "the kubernetis typo",
		"serve the soup", "use checkPrometheus here", "Anne is here", "a quaggb", "a quagga", "a quaggc")
	for _, c := range []struct{ name, typed, meant string }{
		{"left out", "kuberntes cluster", "kubernetes cluster"},
		{"put in", "kubbernetes cluster", "kubernetes cluster"},
		{"swapped", "kubernetes clutser", "kubernetes cluster"},
		{"another", "kubernetws", "kubernetes"}, // the more frequent one, not kubernetis
		{"two as frequent", "quaggx", "quagga"}, // the first in the alphabet
		{"beside the right one", "kubernetes kubernetws", "kubernetes kubernetes"},
		{"capitals and an ending", "KUBERNTES Clutsers", "kubernetes cluster"},
		{"in an identifier", "checkPrometehus", "checkPrometheus"},
		{"quoted", `"kuberntes"`, "kubernetes"},
		{"an English word", "wedding", "elephant"},
		{"the first letter", "jubernetes", "elephant"},
		{"two edits", "kbrnetes", "elephant"},
		{"short", "Anna", "elephant"},
		{"digits", "gard3n", "elephant"},
		{"only the first eight", "xqzzzz xqzzzy xqzzzv xqzzzw xqzzzu xqzzzt xqzzzs xqzzzr kuberntes", "elephant"},
	} {
		q := leg.Query{Text: c.typed, Depth: 10}
		got, want := m.search(t, q), m.search(t, leg.Query{Text: c.meant, Depth: 10})
		if len(want.Hits) > 0 && got.Terms != want.Terms {
			t.Errorf("%s: %q has %d terms, want the %d of %q", c.name, c.typed, got.Terms, want.Terms, c.meant)
		}
		if len(got.Hits) != len(want.Hits) {
			t.Errorf("%s: %q finds %d memories, want the %d of %q", c.name, c.typed, len(got.Hits), len(want.Hits), c.meant)
			continue
		}
		for i, hit := range got.Hits {
			if of := want.Hits[i]; hit.ID != of.ID || hit.Score != of.Score || hit.Matched != of.Matched {
				t.Errorf("%s: hit %d of %q is %+v, want %+v", c.name, i, c.typed, hit, of)
			}
		}
		if brief := m.loaded(t, c.typed).search(t, q); len(brief.Hits) != len(got.Hits) || len(got.Hits) > 0 && brief.Hits[0] != got.Hits[0] {
			t.Errorf("%s: loaded for %q alone there are the hits %+v, want %+v", c.name, c.typed, brief.Hits, got.Hits)
		}
	}
}

// The last word may be the beginning of a longer one, and is not misspelt then.
func TestMisspeltBesideAPrefix(t *testing.T) {
	s := DefaultSettings()
	s.Prefix = true
	m := imageOf(s, "the kubernetes cluster", "kubelets", "the harbour crane")
	got, want := m.search(t, leg.Query{Text: "kuberntes kub", Depth: 10}), m.search(t, leg.Query{Text: "kubernetes kub", Depth: 10})
	if !slices.Equal(got.Hits, want.Hits) || len(got.Hits) != 2 {
		t.Errorf("got %+v, want %+v", got.Hits, want.Hits)
	}
	if got := m.search(t, leg.Query{Text: "harbur kubelex", Depth: 10}); len(got.Hits) != 1 {
		t.Errorf("the last word, which nothing begins with, finds %+v", got.Hits)
	}
}

// Only words of English are known, so in another language none is taken for a misspelt one.
func TestMisspeltInEnglishAlone(t *testing.T) {
	s := DefaultSettings()
	s.Language = "german"
	if got := imageOf(s, "Die Kirsche ist reif").search(t, leg.Query{Text: "Kirche", Depth: 10}); len(got.Hits) > 0 {
		t.Errorf("a church is a cherry: %+v", got.Hits)
	}
}

// A text's matches are the word itself, if the text has it, and else what is near.
func TestMisspeltMatches(t *testing.T) {
	for text, want := range map[string]record.Span{"kubernetes": {Start: 0, End: 10}, "kubernetes, or kuberntes": {Start: 15, End: 24}} {
		found, err := DefaultSettings().matches(t.Context(), "kuberntes", []record.Record{{Content: text}})
		if err != nil || !slices.Equal(found[0].Content, []record.Span{want}) {
			t.Errorf("%s: got %+v, %v; want %+v", text, found, err, want)
		}
	}
}
