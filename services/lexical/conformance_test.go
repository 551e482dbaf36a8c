package lexical_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var _ memory.Index = (*lexical.Index)(nil)

func searcher(t testing.TB, f *storetest.Fixture) *lexical.Leg {
	t.Helper()
	return lexical.New(f.Store(), f.Images(t), lexical.DefaultConfig())
}

// search returns the result for a text in namespace "ns" with depth 10, changed by edit if that is not nil.
func search(t testing.TB, f *storetest.Fixture, text string, edit func(*leg.Query)) leg.Result {
	t.Helper()
	q := leg.Query{Namespace: "ns", Text: text, Depth: 10}
	if edit != nil {
		edit(&q)
	}
	result, err := searcher(t, f).Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	seen := map[uuid.UUID]bool{}
	for _, hit := range result.Hits {
		if seen[hit.ID] {
			t.Errorf("memory %s was found twice", hit.ID)
		}
		seen[hit.ID] = true
	}
	if len(result.Hits) > q.Depth {
		t.Errorf("%d hits with depth %d", len(result.Hits), q.Depth)
	}
	return result
}

// corpus stores records in namespace "ns", a second apart, and names them, so that results read well.
type corpus struct {
	f       *storetest.Fixture
	names   map[uuid.UUID]string
	records map[string]record.Record
}

func newCorpus(f *storetest.Fixture) *corpus {
	return &corpus{f, map[uuid.UUID]string{}, map[string]record.Record{}}
}

func (c *corpus) add(t testing.TB, name, content string, edit func(*record.Record)) {
	t.Helper()
	r := storetest.Record("ns", content, func(r *record.Record) {
		r.CreatedAt = time.Date(2026, 1, 1, 0, 0, len(c.names), 0, time.UTC)
		if edit != nil {
			edit(r)
		}
	})
	c.names[r.ID], c.records[name] = name, r
	c.f.Insert(t, r)
}

// expect checks the names of what a search finds, in order.
func (c *corpus) expect(t testing.TB, text string, edit func(*leg.Query), want ...string) leg.Result {
	t.Helper()
	result := search(t, c.f, text, edit)
	got := []string{}
	for _, hit := range result.Hits {
		got = append(got, c.names[hit.ID])
	}
	if !slices.Equal(got, want) {
		t.Errorf("search found %q, want %q", got, want)
	}
	return result
}

func TestRanking(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "coffee", "The coffee machine on the second floor leaks again", nil)
		c.add(t, "deploy", "Deploying the billing service needs the staging token", nil)
		c.add(t, "token", "The staging token lives in the vault", nil)
		c.add(t, "vault", "Vault backups run every night", nil)

		result := c.expect(t, "deploy the staging token", nil, "deploy", "token")
		for i, hit := range result.Hits {
			r := c.records[c.names[hit.ID]]
			if hit.Importance != r.Importance || !hit.CreatedAt.Equal(r.CreatedAt) || hit.CreatedAt.Location() != time.UTC {
				t.Errorf("hit %d is %+v, want importance and creation time of %+v", i, hit, r)
			}
			if hit.Score <= 0 || math.IsInf(hit.Score, 0) || math.IsNaN(hit.Score) {
				t.Errorf("hit %d has score %v", i, hit.Score)
			}
		}
		if want := triskelev1.ScoreKind_SCORE_KIND_BM25; result.ScoreKind != want {
			t.Errorf("score kind is %v, want %v", result.ScoreKind, want)
		}
		c.expect(t, "deploy the staging token", func(q *leg.Query) { q.Depth = 1 }, "deploy")
		c.expect(t, "COFFEE", nil, "coffee")
		c.expect(t, "elephant", nil)
		c.expect(t, "coffee", func(q *leg.Query) { q.Namespace = "unknown" })
	})
}

func TestTies(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		// More equals than the first look-up takes, so that the best of them are not among its candidates by chance.
		var equals []record.Record
		for i := range 300 {
			equals = append(equals, storetest.Record("ns", "walrus sighting", func(r *record.Record) {
				r.CreatedAt = time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC)
			}))
		}
		f.Insert(t, equals...)
		c.add(t, "older", "walrus sighting", func(r *record.Record) { r.Importance = 0.9 })
		c.add(t, "newer", "walrus sighting", func(r *record.Record) { r.Importance = 0.9 })
		c.add(t, "important", "walrus sighting", func(r *record.Record) { r.Importance = 1 })
		c.expect(t, "walrus", func(q *leg.Query) { q.Depth = 3 }, "important", "newer", "older")
	})
}

func TestFieldsAndStemming(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "content", "runners were running", nil)
		c.add(t, "title", "nothing of note", func(r *record.Record) { r.Title = "Pelican crossing" })
		c.add(t, "keywords", "nothing of note", func(r *record.Record) { r.Keywords = []string{"ostrich farm", "emu"} })
		c.add(t, "tags", "nothing of note", func(r *record.Record) { r.Tags = []string{"heron", "stork"} })
		c.add(t, "category", "nothing of note", func(r *record.Record) { r.Category = "flamingo" })
		for text, want := range map[string]string{
			"run": "content", "pelicans": "title", "ostriches": "keywords", "emu": "keywords", "stork": "tags", "flamingos": "category",
		} {
			c.expect(t, text, nil, want)
		}
	})
}

func TestFieldWeights(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "category", "note", func(r *record.Record) { r.Category = "puffin" })
		c.add(t, "tag", "note", func(r *record.Record) { r.Tags = []string{"puffin"} })
		c.add(t, "keyword", "note", func(r *record.Record) { r.Keywords = []string{"puffin"} })
		c.add(t, "content", "note puffin", nil)
		c.expect(t, "puffin", nil, "content", "keyword", "tag", "category")
	})
}

func TestNamespaces(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		mine, other := storetest.Record("ns", "the same narwhal", nil), storetest.Record("other", "the same narwhal", nil)
		f.Insert(t, other, mine)
		for namespace, want := range map[string]uuid.UUID{"ns": mine.ID, "other": other.ID} {
			result := search(t, f, "narwhal", func(q *leg.Query) { q.Namespace = namespace })
			if len(result.Hits) != 1 || result.Hits[0].ID != want {
				t.Errorf("search in %s found %v, want %s alone", namespace, result.Hits, want)
			}
		}
		if _, err := f.Memory.Forget(t.Context(), "other", []uuid.UUID{other.ID}); err != nil {
			t.Fatal(err)
		}
		if result := search(t, f, "narwhal", nil); len(result.Hits) != 1 {
			t.Errorf("after forgetting in another namespace, %d hits, want 1", len(result.Hits))
		}
	})
}

func TestUpdateReplaces(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "note", "an albatross", nil)
		update := func(change func(*record.Record)) {
			t.Helper()
			if _, err := f.Memory.Update(t.Context(), "ns", c.records["note"].ID, 0, func(r *record.Record) error { change(r); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		update(func(r *record.Record) { r.Content = "a kingfisher" })
		c.expect(t, "albatross", nil)
		c.expect(t, "kingfisher", nil, "note")
		update(func(r *record.Record) { r.Importance = 0.7 })
		if hits := c.expect(t, "kingfisher", nil, "note").Hits; hits[0].Importance != 0.7 {
			t.Errorf("importance is %v, want 0.7", hits[0].Importance)
		}
		update(func(r *record.Record) { r.Sensitive = true })
		c.expect(t, "kingfisher", nil, "note")
		if got := documents(t, f); got != 1 {
			t.Errorf("got %d documents, want 1", got)
		}
	})
}

func TestForget(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "first", "a cormorant", nil)
		c.add(t, "second", "a secret cormorant", func(r *record.Record) { r.Sensitive = true })
		if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{c.records["first"].ID, c.records["second"].ID}); err != nil {
			t.Fatal(err)
		}
		c.expect(t, "cormorant", nil)
		if got := documents(t, f); got != 0 {
			t.Errorf("got %d documents, want none", got)
		}
		// The place in the index may be used again.
		c.add(t, "third", "a bittern", nil)
		c.expect(t, "cormorant", nil)
		c.expect(t, "bittern", nil, "third")
	})
}

// documents counts the rows of the forward index.
func documents(t *testing.T, f *storetest.Fixture) (n int) {
	t.Helper()
	var err error
	if f.Engine == schema.Postgres {
		err = f.Pool.QueryRow(t.Context(), `SELECT count(*) FROM lexical.documents`).Scan(&n)
	} else {
		err = f.DB.Read.QueryRowContext(t.Context(), `SELECT count(*) FROM lexical_documents`).Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLiveness(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "old", "the heron nests by the lake", nil)
		c.add(t, "expired", "a heron", func(r *record.Record) { r.ExpiresAt = time.Now().Add(-time.Minute) })
		c.add(t, "lasting", "one heron flew over the hills", func(r *record.Record) { r.ExpiresAt = time.Now().Add(time.Hour) })
		c.add(t, "sensitive", "the heron had its own secret nest", func(r *record.Record) { r.Sensitive = true })
		replacement := storetest.Record("ns", "the heron has left", nil)
		c.names[replacement.ID] = "new"
		if _, _, err := f.Memory.Supersede(t.Context(), c.records["old"].ID, 0, replacement); err != nil {
			t.Fatal(err)
		}
		found := func(edit func(*leg.Query)) []string {
			var names []string
			for _, hit := range search(t, f, "heron", edit).Hits {
				names = append(names, c.names[hit.ID])
			}
			slices.Sort(names)
			return names
		}
		if got, want := found(nil), []string{"lasting", "new", "sensitive"}; !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
		if got, want := found(func(q *leg.Query) { q.AsOf = time.Now().AddDate(-1, 0, 0) }), []string{"lasting", "new", "sensitive"}; !slices.Equal(got, want) {
			t.Errorf("as of a year ago found %q, want %q: only the graph takes notice", got, want)
		}
		if got, want := found(func(q *leg.Query) { q.Filter.IncludeSuperseded = true }), []string{"lasting", "new", "old", "sensitive"}; !slices.Equal(got, want) {
			t.Errorf("with superseded ones found %q, want %q", got, want)
		}
	})
}

// TestManyDead has more dead memories than candidates ahead of the only live one.
func TestManyDead(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var dead []record.Record
		for range 400 {
			dead = append(dead, storetest.Record("ns", "dodo", func(r *record.Record) { r.ExpiresAt = time.Now().Add(-time.Hour) }))
		}
		f.Insert(t, dead...)
		c := newCorpus(f)
		c.add(t, "live", "a dodo among many other birds of the island, seen once", nil)
		c.expect(t, "dodo", nil, "live")
	})
}

func TestFilters(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "a", "gannet", func(r *record.Record) {
			r.Tags, r.Category, r.Metadata, r.Importance = []string{"x", "y"}, "north", map[string]any{"n": 1.0, "s": "1"}, 0.9
		})
		c.add(t, "b", "gannet", func(r *record.Record) {
			r.Tags, r.Category, r.Metadata, r.Importance = []string{"y"}, "south", map[string]any{"n": "1", "b": true}, 0.8
		})
		c.add(t, "c", "gannet", nil)
		at := func(name string) time.Time { return c.records[name].CreatedAt }
		for _, test := range []struct {
			name   string
			filter record.Filter
			want   []string
		}{
			{"none", record.Filter{}, []string{"c", "a", "b"}}, // by length: a and b have more terms
			{"any tag", record.Filter{TagsAny: []string{"x", "z"}}, []string{"a"}},
			{"all tags", record.Filter{TagsAll: []string{"y", "x"}}, []string{"a"}},
			{"category", record.Filter{Categories: []string{"south", "west"}}, []string{"b"}},
			{"from", record.Filter{CreatedFrom: at("b"), Categories: []string{"south", ""}}, []string{"c", "b"}},
			{"before", record.Filter{CreatedBefore: at("b")}, []string{"a"}},
			{"number", record.Filter{Metadata: map[string]any{"n": 1.0}}, []string{"a"}},
			{"text", record.Filter{Metadata: map[string]any{"n": "1"}}, []string{"b"}},
			{"truth", record.Filter{Metadata: map[string]any{"b": true}}, []string{"b"}},
			{"nothing", record.Filter{TagsAll: []string{"z"}}, nil},
		} {
			t.Run(test.name, func(t *testing.T) {
				got := search(t, f, "gannet", func(q *leg.Query) { q.Filter = test.filter }).Hits
				names := make([]string, len(got))
				for i, hit := range got {
					names[i] = c.names[hit.ID]
				}
				slices.Sort(names)
				slices.Sort(test.want)
				if !slices.Equal(names, test.want) {
					t.Errorf("found %q, want %q", names, test.want)
				}
			})
		}
	})
}

func TestMinScore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "both", "osprey and buzzard", nil)
		c.add(t, "osprey", "osprey among reeds", nil)
		c.add(t, "neither", "reeds", nil)
		all := c.expect(t, "osprey buzzard", nil, "both", "osprey")
		for i, hit := range all.Hits {
			want := []string{"both", "osprey"}[:i+1]
			c.expect(t, "osprey buzzard", func(q *leg.Query) { q.MinScore = &hit.Score }, want...)
		}
		above := all.Hits[0].Score + 1
		c.expect(t, "osprey buzzard", func(q *leg.Query) { q.MinScore = &above })
	})
}

func TestAbstains(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "note", "the who and the what", nil)
		abstained := triskelev1.LegState_LEG_STATE_ABSTAINED
		for _, text := range []string{"", "   ", "?!", "\u0301", "🦤"} {
			if result := c.expect(t, text, nil); result.State != abstained || result.Reason == "" || result.ScoreKind == 0 {
				t.Errorf("for %q the result is %+v, want ABSTAINED with a reason", text, result)
			}
		}
	})
}

func TestStopWords(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "stop", "to be or not to be", nil)
		c.add(t, "both", "the owl is not to be seen", nil)
		c.add(t, "none", "owls", nil)
		c.expect(t, "To be or not to be!", nil, "stop", "both")
		// Beside another word they are not looked for.
		c.expect(t, "is the owl not to be", nil, "none", "both")
	})
}

func TestSyntaxIsText(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "foo", "foo near", nil)
		c.add(t, "decoy", "decoy content ns", nil)
		for _, text := range []string{
			`'foo & | ! ( : * "`, `foo NOT`, `NEAR(foo`, `NEAR(foo, 2`, `{zzz}: foo`, `^foo`, `foo*`, `-foo`, `foo AND`, `"foo`, `foo\`, `'foo''`, `foo:*A`,
			`!foo`, `<->foo`, `foo);DROP TABLE x;--`, "%foo%", `https://foo.example/it's&b|c!d(e):f*?x=1\y`, "foo\x01\u2028", `foo "" ()`,
		} {
			result := search(t, f, text, nil)
			if strings.Contains(text, "https") {
				continue // its words differ between the engines; that it is no error matters
			}
			if len(result.Hits) != 1 || c.names[result.Hits[0].ID] != "foo" {
				t.Errorf("search for %q found %v, want the foo memory", text, result.Hits)
			}
		}
		c.expect(t, "xfo*", nil)
		c.expect(t, "fo", nil)
	})
}

// TestAwkwardWords finds texts again whose words contain what a tsquery could take for syntax.
func TestAwkwardWords(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		texts := []string{
			"example.com/it's&b|c!d(e):f*", `C:\temp\new.txt`, "user+tag@example.org", "getUserById", "ERR_CONN_RESET", "10.0.0.3", "v1.2.3-rc.1",
			"/usr/lib/x86_64-linux-gnu", "naïve café", "Ünïcödé Straße", "日本語の記憶", "Москва зимой", "don't can't", "a-b-c-d", "x<y>z", "½ ⅷ ٣٤",
		}
		for i, text := range texts {
			c.add(t, fmt.Sprint(i), text, nil)
		}
		for i, text := range texts {
			// With another word, so that PostgreSQL broadens.
			result := search(t, f, text+" unfindable", nil)
			if text == "don't can't" || text == "x<y>z" || text == "½ ⅷ ٣٤" {
				continue // stop words, a tag, and characters to one engine; again no error
			}
			if len(result.Hits) == 0 || c.names[result.Hits[0].ID] != fmt.Sprint(i) {
				t.Errorf("search for %q found %v first, want itself", text, result.Hits)
			}
		}
	})
}

func TestLongQueries(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "topic", strings.Repeat("kestrel ", 40), nil)
		words := make([]string, 2000)
		for i := range words {
			words[i] = fmt.Sprintf("filler%d", i)
		}
		words[900], words[1900] = "kestrel", "kestrels"
		result := c.expect(t, strings.Join(words, " "), nil, "topic")
		if !strings.Contains(result.Reason, " of the 1999 terms") {
			t.Errorf("the reason %q does not say that terms were left out", result.Reason)
		}
		c.expect(t, strings.Repeat("x", 32<<10), nil)
		c.expect(t, strings.Repeat("é", 16<<10), nil)
		c.expect(t, strings.Repeat("kestrel ", 4096), nil, "topic")
	})
}

func TestLargestRecord(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		var text strings.Builder
		for i := 0; text.Len() < 60<<10; i++ {
			fmt.Fprintf(&text, "%x-%x.b%d ", i, i*7919, i)
		}
		c.add(t, "words", text.String()+" capercaillie", func(r *record.Record) {
			for i := range 128 {
				r.Keywords = append(r.Keywords, strings.Repeat("k", 120)+fmt.Sprint(i))
			}
		})
		c.add(t, "word", strings.Repeat("y", 64<<10-8)+" wigeon", nil)
		c.expect(t, "capercaillie", nil, "words")
		c.expect(t, "wigeon", nil, "word")
	})
}

func TestDeadline(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		newCorpus(f).add(t, "note", "a plover", nil)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		if _, err := searcher(t, f).Search(ctx, leg.Query{Namespace: "ns", Text: "plover", Depth: 10}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want context.DeadlineExceeded", err)
		}
		if _, err := searcher(t, f).Search(t.Context(), leg.Query{Namespace: "ns", Text: "plover", Depth: 10}); err != nil {
			t.Errorf("the next search fails: %v", err)
		}
	})
}

func TestStatus(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("ns", "one", nil), storetest.Record("ns", "two", func(r *record.Record) { r.Sensitive = true }), storetest.Record("other", "three", nil))
		for namespace, want := range map[string]int64{"ns": 2, "other": 1, "unknown": 0} {
			status, err := searcher(t, f).Status(t.Context(), namespace)
			if err != nil {
				t.Fatal(err)
			}
			if status.Indexed != want || status.Pending != 0 || status.Dead != 0 || status.Lag != 0 || status.Model == "" {
				t.Errorf("status of %s is %+v, want %d indexed and nothing pending", namespace, status, want)
			}
		}
	})
}

func TestAccentsAndScripts(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "accents", "Der Käse im Café in Łódź schmeckt wie in Αθήνα", nil)
		c.add(t, "russian", "Это мой чёрный ёжик", nil)
		c.add(t, "japanese", "iPhone用のケースを大阪で買った", nil)
		c.add(t, "chinese", "上海的天气很好", nil)
		c.add(t, "thai", "ฉันชอบกินข้าวผัด", nil)
		for text, want := range map[string]string{
			"cafe": "accents", "KASE": "accents", "lodz": "accents", "αθηνα": "accents", "ｃａｆｅ": "accents",
			"черный": "russian", "大阪": "japanese", "ケース": "japanese", "iphone": "japanese", "天气": "chinese", "海": "chinese", "ข้าว": "thai",
		} {
			c.expect(t, text, nil, want)
		}
		c.expect(t, "мои", nil) // another letter, not an accent
	})
}

func TestIdentifiers(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		for name, content := range map[string]string{
			"camel": "call getUserById first", "constant": "fails with ERR_CONN_RESET at night", "address": "the gateway is 10.0.0.3 now",
			"version": "pinned to v1.2.3-rc.1", "path": "see /etc/nginx/sites-enabled/default.conf", "mail": "ask ops+urgent@example.org",
			"acronym": "the HTTPServer restarts", "hyphen": "a well-known quirk",
		} {
			c.add(t, name, content, nil)
		}
		for text, want := range map[string]string{
			"getuserbyid": "camel", "getUserById": "camel", "user": "camel", "err_conn_reset": "constant", "conn": "constant", "10.0.0.3": "address",
			"V1.2.3-RC.1": "version", "rc": "version", "nginx": "path", "/etc/nginx/sites-enabled/default.conf": "path", "default.conf": "path",
			"OPS+urgent@Example.org": "mail", "example.org": "mail", "server": "acronym", "http": "acronym", "well known": "hyphen",
		} {
			result := search(t, f, text, nil)
			if len(result.Hits) == 0 || c.names[result.Hits[0].ID] != want {
				t.Errorf("search for %q found %v, want %s", text, result.Hits, want)
			}
		}
		// The whole tells more than its parts.
		c.add(t, "parts", "0.3 0.0 10.10", nil)
		if result := search(t, f, "10.0.0.3", nil); c.names[result.Hits[0].ID] != "address" {
			t.Errorf("the parts of an address rank before the address")
		}
	})
}

func TestPhrases(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := newCorpus(f)
		c.add(t, "apart", "the barn and the owl met again, and the barn was red while the owl slept on a branch", nil)
		c.add(t, "phrase", "long ago there was, among other things on that far hill, an owl of the barn under a tree", nil)
		c.add(t, "chinese", "东京都和大阪府", nil)
		c.add(t, "chinese apart", "东京和京都", nil)
		for range 20 {
			c.add(t, "filler", "nothing of the kind was said by any keeper, whatever visitors claimed later about strange night sounds", nil)
		}
		c.expect(t, "owl of the barn", nil, "apart", "phrase")
		c.expect(t, `"owl of the barn"`, nil, "phrase", "apart")
		c.expect(t, `tell me about the “owl of the barn”`, nil, "phrase", "apart")
		c.expect(t, `"barn of the owl"`, nil, "apart", "phrase")
		c.expect(t, `"owl of the barn`, nil, "apart", "phrase")
		c.expect(t, `"东京都"`, nil, "chinese", "chinese apart")
		c.add(t, "list", "a list", nil)
		c.add(t, "to do", "she wrote down what had to be bought, and then put it on the to-do list, which was as long as the year before", nil)
		c.expect(t, `"to do list"`, nil, "to do", "list")
		c.expect(t, `"to-do list"`, nil, "to do", "list")
		c.expect(t, `"the list"`, nil, "list", "to do")
	})
}

func TestSettings(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := func(s lexical.Settings) {
			t.Helper()
			if err := searcher(t, f).Set(t.Context(), "ns", s); err != nil {
				t.Fatal(err)
			}
			if got, err := searcher(t, f).Settings(t.Context(), "ns"); got != s || err != nil {
				t.Errorf("the settings are %+v and %v, want %+v", got, err, s)
			}
		}
		c := newCorpus(f)
		c.add(t, "german", "Die Häuser am See", nil)
		c.add(t, "english", "several deployments failed", nil)
		c.expect(t, "haus", nil)
		c.expect(t, "deployment", nil, "english")

		s := lexical.DefaultSettings()
		s.Language = "german"
		set(s)
		c.expect(t, "haus", nil, "german")
		c.expect(t, "deployed", nil)
		c.add(t, "later", "Häusern", nil)
		c.expect(t, "haus", nil, "later", "german")

		c.expect(t, "depl", nil)
		s.Prefix = true
		set(s)
		c.expect(t, "which depl", nil, "english")
		c.expect(t, "depl which", nil)
		c.expect(t, "hau", nil, "later", "german")

		s.Scorer = triskelev1.Scorer_SCORER_TS_RANK
		set(s)
		result := c.expect(t, "failed", nil, "english")
		if f.Engine == schema.Postgres && result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_TS_RANK || f.Engine == schema.SQLite && result.State != triskelev1.LegState_LEG_STATE_FALLBACK {
			t.Errorf("with a scorer for the namespace the result is %+v", result)
		}
		if result := search(t, f, "failed", func(q *leg.Query) { q.Scorer = triskelev1.Scorer_SCORER_BM25 }); result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_BM25 {
			t.Errorf("the request's own scorer is overridden: %+v", result)
		}

		s.Language = "klingon"
		if err := s.Check(); err == nil {
			t.Error("an unknown language is accepted")
		}
	})
}

func TestMatches(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("ns", "The deployments of getUserById and deploying café-bots; "+strings.Repeat("deploy ", 100), func(r *record.Record) { r.Title = "Cafe 東京都 of Deployers" })
		other := storetest.Record("ns", "nothing", nil)
		f.Insert(t, r, other)
		words := func(query string) (title, content []string) {
			t.Helper()
			found, err := f.Memory.Matches(t.Context(), "ns", query, []record.Record{r, other})
			if err != nil || len(found) != 2 || len(found[1].Title)+len(found[1].Content) > 0 {
				t.Fatalf("matches of %q: %+v, %v", query, found, err)
			}
			for _, s := range found[0].Title {
				title = append(title, r.Title[s.Start:s.End])
			}
			for _, s := range found[0].Content {
				content = append(content, r.Content[s.Start:s.End])
			}
			return title, content
		}
		for query, want := range map[string][2]string{
			"of user":         {"", "User"}, // a stop word beside another is not sought
			"of":              {"of", "of"},
			"cafe":            {"Cafe", "café"},
			"CAFÉ-BOTS bots":  {"Cafe", "café-bots"},
			"getuserbyid":     {"", "getUserById"},
			"gteuserbyid":     {"", "getUserById"}, // misspelt
			"京都 elsewhere":    {"京都", ""},
			"elephant":        {"", ""},
			`"?!`:             {"", ""},
			"deploy's <tags>": {"Deployers", "deployments deploying" + strings.Repeat(" deploy", 62)},
		} {
			title, content := words(query)
			if got := [2]string{strings.Join(title, " "), strings.Join(content, " ")}; got != want {
				t.Errorf("%q matches %q, want %q", query, got, want)
			}
		}
		s := lexical.DefaultSettings()
		s.Prefix = true
		if err := searcher(t, f).Set(t.Context(), "ns", s); err != nil {
			t.Fatal(err)
		}
		if title, _ := words("dep"); !slices.Equal(title, []string{"Deployers"}) {
			t.Errorf("a prefix matches %q", title)
		}
	})
}

// TestEqualRanks compares the hits of both engines, to the last digit.
func TestEqualRanks(t *testing.T) {
	fixtures := []*storetest.Fixture{storetest.Postgres(t), storetest.SQLite(t)}
	random := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(random, 1.1, 10, 300)
	var records []record.Record
	for range 300 {
		records = append(records, storetest.Record("ns", text(zipf, 1+random.IntN(20))+" get.user/by-id", func(r *record.Record) {
			r.Title, r.Category, r.Tags, r.Keywords = text(zipf, random.IntN(3)), text(zipf, random.IntN(2)), []string{text(zipf, 1)}, []string{text(zipf, 2)}
		}))
	}
	for _, f := range fixtures {
		f.Insert(t, records[:200]...)
		if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{records[5].ID, records[100].ID}); err != nil {
			t.Fatal(err)
		}
		f.Insert(t, records[200:]...)
		random.Shuffle(200, func(i, j int) { records[i], records[j] = records[j], records[i] })
		slices.SortFunc(records, func(a, b record.Record) int { return slices.Compare(a.ID[:], b.ID[:]) })
	}
	for range 50 {
		query := text(zipf, 1+random.IntN(6)) + ` "` + text(zipf, 2) + `" by-id`
		edit := func(q *leg.Query) { q.Depth, q.MarkExact = 50, true }
		if postgres, sqlite := search(t, fixtures[0], query, edit), search(t, fixtures[1], query, edit); !reflect.DeepEqual(postgres.Hits, sqlite.Hits) {
			t.Fatalf("%q: PostgreSQL has the hits\n%+v, SQLite\n%+v", query, postgres.Hits, sqlite.Hits)
		}
	}
}

// TestReindexAddsWhatIsMissing indexes memories that have no documents. An image sees them.
func TestReindexAddsWhatIsMissing(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var records []record.Record
		for range 250 {
			records = append(records, storetest.Record("ns", "a grebe", nil))
		}
		f.Insert(t, records...)
		s := searcher(t, f)
		found := func() int {
			t.Helper()
			result, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Text: "grebe", Depth: 1000})
			if err != nil {
				t.Fatal(err)
			}
			return len(result.Hits)
		}
		if f.Engine == schema.Postgres {
			if _, err := f.Pool.Exec(t.Context(), `DELETE FROM lexical.documents`); err != nil {
				t.Fatal(err)
			}
		} else if err := f.DB.Update(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM lexical_documents`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got := found(); got != 0 {
			t.Errorf("%d memories without documents are found, want none", got)
		}
		if err := s.Reindex(t.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
		if got := found(); got != 250 {
			t.Errorf("%d memories are found, want 250", got)
		}
	})
}

// TestSettingsReachImages changes the settings of a namespace that is in memory.
func TestSettingsReachImages(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("ns", "the grebes dived and the stork stork", nil))
		s, other := searcher(t, f), searcher(t, f)
		found := func(text string) leg.Result {
			t.Helper()
			result, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Text: text, Depth: 1})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		if got := found("gre"); len(got.Hits) != 0 {
			t.Errorf("a prefix finds %d hits, want none", len(got.Hits))
		}
		before := found("stork").Hits[0].Score
		settings := lexical.DefaultSettings()
		settings.Prefix, settings.K1, settings.Language = true, 2, "simple"
		if err := other.Set(t.Context(), "ns", settings); err != nil {
			t.Fatal(err)
		}
		if got := found("gre"); len(got.Hits) != 1 {
			t.Errorf("a prefix finds %d hits, want 1", len(got.Hits))
		}
		if got := found("dives which"); len(got.Hits) != 0 {
			t.Errorf("a stem finds %d hits in a language without stems, want none", len(got.Hits))
		}
		if after := found("stork").Hits[0].Score; after == before {
			t.Errorf("the score is still %v with another k1", after)
		}
	})
}
