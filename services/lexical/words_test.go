package lexical

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/triskele/triskele/services/store/record"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"Runners were running": "runner/0 were/1 run/2",
		"getUserByID42":        "getuserbyid42/0 get/0 user/1 by/2 id42/3",
		"HTTPServer":           "httpserver/0 http/0 server/1",
		"IPv6 iOS eBay":        "ipv6/0 i/0 pv6/1 io/2 i/2 os/3 ebay/4 e/4 bay/5",
		"ERR_CONN_RESET!":      "err_conn_reset/0 err/0 conn/1 reset/2",
		"at 10.0.0.3.":         "at/0 10.0.0.3/1 10/1 0/2 0/3 3/4",
		"/usr/lib64/ld.so:":    "usr/lib64/ld.so/0 usr/0 lib64/1 ld/2 so/3",
		"a--b c: d":            "a--b/0 a/0 b/1 c/2 d/3",
		"don't":                "don/0 t/1",
		"Ａｂｃ naïve ŁÓDŹ":       "abc/0 naiv/1 lodz/2",
		"мой ёлка":             "мой/0 елка/1",
		"東京都 x":                "東/0 東京/0 京/1 京都/1 都/2 x/3",
		"한글 ガ":                 "한/0 한글/0 글/1 ガ/2",
		"\u1112\u1161\u11ab\u1100\u1173\u11af \u30ab\u3099": "한/0 한글/0 글/1 ガ/2", // the same, decomposed
		"ก็":                                 "ก/0 ก็/0 ็/1",
		"iPhone用":                            "iphon/0 i/0 phone/1 用/2",
		"\u0301 🦤 -- \u200d":                 "",
		"x\u0301\u0302 a\u0345\tb":           "x/0 a/1 b/2",
		"run\u00adners \u00ad x":             "runner/0 x/1", // soft hyphens
		"caféMenu ÉTÉMenu":                   "cafemenu/0 cafe/0 menu/1 etemenu/2 ete/2 menu/3",
		"Ǿre ǽsir":                           "ore/0 aesir/1",
		"O\u0338\u0301re æ\u0301sir":         "ore/0 aesir/1",
		"cafe\u0301Menu E\u0301TE\u0301Menu": "cafemenu/0 cafe/0 menu/1 etemenu/2 ete/2 menu/3", // the same, decomposed

	} {
		var got []string
		for _, token := range languages["english"].tokens(text) {
			got = append(got, token.term+"/"+string(rune('0'+token.position)))
		}
		if wanted := strings.Fields(want); !slices.Equal(got, wanted) {
			t.Errorf("tokens of %q are %q, want %q", text, got, wanted)
		}
	}
}

// TestLongestTerms: no stemmer makes a term too long for the forward index.
func TestLongestTerms(t *testing.T) {
	for name, l := range languages {
		for _, word := range []string{strings.Repeat("ing", 100), strings.Repeat("a", 254) + "d", strings.Repeat("é", 300)} {
			var d document
			if err := d.decode(encode(record.Record{Content: word}, l.occurrences(record.Record{Content: word}))); err != nil || len(d.terms) != 1 {
				t.Errorf("%s, %.9s…: got %d terms and %v, want one", name, word, len(d.terms), err)
			}
		}
	}
}

// TestManyQuotations: what is between quotation marks is found without reading all of a query for each pair of them.
func TestManyQuotations(t *testing.T) {
	for _, quoted := range []string{`"a b" `, `"a" `} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		q := understand(strings.Repeat(quoted, 32<<10/len(quoted)), DefaultSettings())
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
			t.Errorf("%q again and again: got %d MiB allocated for %d phrases, want 64 at most", quoted, got, len(q.phrases))
		}
	}
}

// FuzzTokens: tokens lie in the text, one after the other, and their terms are what both engines can keep.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{"", "getUserById", "a.b-c", "日本語 text", "e\u0301", "½ ⅷ ㎏ ⑴", "ﬁ İ ß", strings.Repeat("é", 300), "x\xff", "ก็", "ｶﾞ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		position := 0
		for _, token := range languages["english"].tokens(text) {
			switch {
			case token.start < 0 || token.start >= token.end || token.end > len(text):
				t.Fatalf("token %+v is not in the text", token)
			case token.position < position || token.position > position+1:
				t.Fatalf("token %+v comes after position %d", token, position)
			case token.term == "" || len(token.term) > maxTermBytes || !utf8.ValidString(token.term) || strings.ContainsAny(token.term, " \t\n\"'*^"):
				t.Fatalf("the term of %+v is not one", token)
			}
			position = token.position
		}
	})
}
