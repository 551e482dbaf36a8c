package lexical_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// FuzzSearchQuery: no text is an error, and none is taken for query syntax that excludes.
func FuzzSearchQuery(f *testing.F) {
	fixtures := map[string]*storetest.Fixture{"postgres": storetest.Postgres(f), "sqlite": storetest.SQLite(f)}
	legs := map[string]*lexical.Leg{}
	for engine, fixture := range fixtures {
		fixture.Insert(f, storetest.Record("ns", "anchorage", nil))
		legs[engine] = searcher(f, fixture)
	}
	for _, text := range []string{
		"", "anchorage", `'foo & | ! ( : * "`, "NEAR(", "a:b", "a'b\\c", "example.com/a'b&c", "\u0301", "e\u0301", "日本語", "🦤", "a-b-c", "-x", "NOT",
		"x\xff", "ǅ", "\U0001E900", "\u1cff", "{a b}: c", "^a + b", "1e-5", "<a href='x'>", "\u00ad", "\u2028",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || len(text) > 32<<10 {
			return // refused before it reaches a leg
		}
		for engine := range fixtures {
			q := leg.Query{Namespace: "ns", Text: text, Depth: 10}
			if _, err := legs[engine].Search(t.Context(), q); err != nil {
				t.Errorf("%s: %v", engine, err)
			}
			// Apart from the text by a space; a line, a tag or a quotation in it must not swallow the word.
			q.Text = "anchorage " + text
			if result, err := legs[engine].Search(t.Context(), q); err != nil {
				t.Errorf("%s: %v", engine, err)
			} else if len(result.Hits) != 1 && len(strings.Fields(text)) < 64 {
				t.Errorf("%s: %d hits, want 1", engine, len(result.Hits))
			}
		}
	})
}
