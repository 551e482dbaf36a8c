package lexical

import (
	"math/bits"
	"testing"

	"github.com/triskele/triskele/services/leg"
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
func imageOf(texts ...string) *image {
	m, w := newImage(DefaultSettings()), newWriter(1, 10)
	for _, text := range texts {
		r := w.record()
		r.Title, r.Content, r.Keywords, r.Tags = "", text, nil, nil
		m.put(r)
	}
	return m
}

// A misspelt word counts as the word that it is one edit away from.
func TestMisspelt(t *testing.T) {
	m := imageOf("the kubernetes cluster in Nuremberg", "kubernetes costs too much", "a cluster of grapes", "weeding the garden", "the kubernetis typo",
		"serve the soup", "use checkPrometheus here", "Anne is here")
	for _, c := range []struct{ name, typed, meant string }{
		{"left out", "kuberntes cluster", "kubernetes cluster"},
		{"put in", "kubbernetes cluster", "kubernetes cluster"},
		{"swapped", "kubernetes clutser", "kubernetes cluster"},
		{"another", "kubernetws", "kubernetes"}, // the more frequent one, not kubernetis
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
