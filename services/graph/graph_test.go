package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

const ns = "acme/assistant"

func open(f *storetest.Fixture) *graph.Leg {
	config := graph.Config{}
	config.Traversal = "hop-decay" // unless a test says
	return openWith(f, config)
}

func openWith(f *storetest.Fixture, config graph.Config) *graph.Leg {
	return openIn(f, replica.Config{Memory: 1024}, config)
}

// openIn returns a graph with images of its own, which ask the database before each search unless the configuration says
// otherwise.
func openIn(f *storetest.Fixture, images replica.Config, config graph.Config) *graph.Leg {
	meter := f.Tel.MeterProvider.Meter("test")
	return graph.New(f.Store(), replica.New(context.Background(), f.Store(), images, meter, storetest.Log()), f.Queue, config)
}

// inSQL searches by hop decay in SQL.
type inSQL struct{ *graph.Leg }

func (s inSQL) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	return s.SearchInSQL(ctx, q)
}

// count returns how many rows of a graph table a condition holds for.
func count(t testing.TB, f *storetest.Fixture, table, where string) int {
	t.Helper()
	var n int
	var err error
	if f.Engine == schema.Postgres {
		err = f.Pool.QueryRow(t.Context(), "SELECT count(*) FROM graph."+table+" WHERE "+where).Scan(&n)
	} else {
		err = f.DB.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM graph_"+table+" WHERE "+where).Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sizes counts the concepts and their mentions.
func sizes(t testing.TB, f *storetest.Fixture) [2]int {
	t.Helper()
	if f.Engine == schema.Postgres {
		return [2]int{count(t, f, "concepts", "true"), count(t, f, "memory_concepts", "true")}
	}
	return [2]int{count(t, f, "concepts", "true"), count(t, f, "memories, json_each(mentions)", "true")}
}

// consistent fails the test unless each concept is mentioned as often as it says.
func consistent(t testing.TB, f *storetest.Fixture) {
	t.Helper()
	mentions := "SELECT count(*) FROM graph.memory_concepts m WHERE m.namespace = c.namespace AND m.concept_id = c.id"
	if f.Engine == schema.SQLite {
		mentions = "SELECT count(*) FROM graph_memories m, json_each(m.mentions) j WHERE m.namespace = c.namespace AND j.value ->> 0 = c.id"
	}
	if n := count(t, f, "concepts AS c", "mentions = 0 OR mentions <> ("+mentions+")"); n != 0 {
		t.Errorf("%d concepts miscount their mentions", n)
	}
}

func search(t testing.TB, s leg.Searcher, q leg.Query) leg.Result {
	t.Helper()
	if q.Namespace == "" {
		q.Namespace = ns
	}
	if q.Depth == 0 {
		q.Depth = 50
	}
	result, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range result.Hits {
		if h.Own != h.Score {
			t.Errorf("a hit scores %g by itself and %g with what others lend, but none lend in the graph", h.Own, h.Score)
		}
	}
	return result
}

// expect fails the test unless a search finds exactly these memories in this order.
func expect(t testing.TB, s leg.Searcher, q leg.Query, want ...record.Record) {
	t.Helper()
	result := search(t, s, q)
	var got, ids []uuid.UUID
	for _, h := range result.Hits {
		got = append(got, h.ID)
	}
	for _, r := range want {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%q found %v, want %v", q.Text, result.Hits, ids)
	}
	if len(want) > 0 && result.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED && result.State != triskelev1.LegState_LEG_STATE_OK {
		t.Errorf("state %v", result.State)
	}
	if result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY {
		t.Errorf("score kind %v", result.ScoreKind)
	}
}

func tagged(content string, tags ...string) record.Record {
	return storetest.Record(ns, content, func(r *record.Record) { r.Tags = tags })
}

func TestHops(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		one := storetest.Record(ns, "Yesterday Teo repaired the hull of Kittiwake.", nil)
		two := storetest.Record(ns, "It was seen that Kittiwake lies in Aldermouth.", nil)
		three := storetest.Record(ns, "We know that Aldermouth floods when Orsolya opens the lock.", nil)
		four := storetest.Record(ns, "We heard that Orsolya collects Enigma machines.", nil)
		other := storetest.Record(ns, "We ordered paper from Brackwater.", nil)
		f.Insert(t, one, two, three, four, other)
		f.Drain(t, "graph", s)

		expect(t, s, leg.Query{Text: "what does teo do?"}, one, two, three)
		expect(t, s, leg.Query{Text: "KITTIWAKE's history"}, one, two, three, four)
		expect(t, s, leg.Query{Text: "Brackwater"}, other)

		hits := search(t, s, leg.Query{Text: "Teo"}).Hits
		if h := hits[0]; h.Importance != 0.5 || !h.CreatedAt.Equal(one.CreatedAt) || h.Score <= 0 {
			t.Errorf("hit %+v", h)
		}
		for i := 1; i < len(hits); i++ {
			if hits[i].Score >= hits[i-1].Score {
				t.Errorf("hop %d scores %v, the one before %v", i, hits[i].Score, hits[i-1].Score)
			}
		}
		floor := hits[1].Score
		expect(t, s, leg.Query{Text: "Teo", MinScore: &floor}, one, two)
		expect(t, s, leg.Query{Text: "Teo", Depth: 1}, one)

		status, err := s.Status(t.Context(), ns)
		if err != nil || status != (leg.Status{Indexed: 5, Model: "names"}) {
			t.Errorf("status %+v, %v", status, err)
		}
		consistent(t, f)
	})
}

func TestAbstain(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		plan := storetest.Record(ns, "we will sell fewer sensors", func(r *record.Record) { r.Title, r.Tags = "Roadmap", []string{"sales"} })
		f.Insert(t, plan)
		f.Drain(t, "graph", s)
		for _, text := range []string{"", "?!", "what is this", "What Is The Plan For Q3", "Zanzibar", "the of a"} {
			result := search(t, s, leg.Query{Text: text})
			if result.State != triskelev1.LegState_LEG_STATE_ABSTAINED || result.Reason == "" || len(result.Hits) != 0 {
				t.Errorf("%q: %+v", text, result)
			}
		}
		if result := search(t, s, leg.Query{Namespace: "nobody/home", Text: "Roadmap"}); result.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("unknown namespace: %+v", result)
		}
		q3 := storetest.Record(ns, "We deliver sensors in Q3 at last.", nil)
		f.Insert(t, q3)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "What Is The Plan For Q3"}, q3)
	})
}

func TestLongestMatchLinks(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		harbour, office := tagged("tide tables", "harbour"), tagged("opening hours", "Harbour Office")
		f.Insert(t, harbour, office)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "when does the harbour office open"}, office)
		expect(t, s, leg.Query{Text: "ships in the harbours"}, harbour)
		expect(t, s, leg.Query{Text: "the harbour office in another harbour"}, func() []record.Record {
			ids := []record.Record{harbour, office} // equal scores and importance: the newer first, then by id
			slices.SortFunc(ids, func(a, b record.Record) int {
				if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
					return c
				}
				return slices.Compare(a.ID[:], b.ID[:])
			})
			return ids
		}()...)
	})
}

func TestTextResolvesAgainstKnownConcepts(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		profile := tagged("sells sensors", "tide sensors")
		lower := storetest.Record(ns, "a gull broke the tide sensor again", nil)
		f.Insert(t, profile, lower)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Tide Sensors"}, profile, lower)
	})
}

func TestNamespacesAreApart(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		mine := storetest.Record(ns, "We saw Teo in Aldermouth.", nil)
		theirs := storetest.Record("other", "We saw Teo in Brackwater.", nil)
		f.Insert(t, mine, theirs)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, mine)
		expect(t, s, leg.Query{Namespace: "other", Text: "Teo"}, theirs)
		expect(t, s, leg.Query{Namespace: "other", Text: "Aldermouth"})
		status, err := s.Status(t.Context(), "other")
		if err != nil || status.Indexed != 1 {
			t.Errorf("status %+v, %v", status, err)
		}
	})
}

func TestUpdateReplaces(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		r := storetest.Record(ns, "We saw Teo in Aldermouth.", nil)
		f.Insert(t, r)
		f.Drain(t, "graph", s)
		r2, err := f.Memory.Update(t.Context(), ns, r.ID, 0, func(r *record.Record) error {
			r.Content = "We saw Maren in Aldermouth."
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"})
		expect(t, s, leg.Query{Text: "Maren"}, r2)
		if got, want := sizes(t, f), [2]int{2, 2}; got != want {
			t.Errorf("%v rows, want %v", got, want)
		}

		t.Run("again changes nothing", func(t *testing.T) {
			if err := s.Index(t.Context(), []record.Record{r2, r2}); err != nil {
				t.Fatal(err)
			}
			expect(t, s, leg.Query{Text: "Maren"}, r2)
			consistent(t, f)
		})
		t.Run("a stale revision is skipped", func(t *testing.T) {
			if err := s.Index(t.Context(), []record.Record{r}); err != nil {
				t.Fatal(err)
			}
			expect(t, s, leg.Query{Text: "Teo"})
			expect(t, s, leg.Query{Text: "Maren"}, r2)
		})
		t.Run("a memory that is gone is skipped", func(t *testing.T) {
			if err := s.Index(t.Context(), []record.Record{storetest.Record(ns, "We lost Zanzibar.", nil)}); err != nil {
				t.Fatal(err)
			}
			expect(t, s, leg.Query{Text: "Zanzibar"})
		})
		consistent(t, f)
	})
}

func TestForgetLeavesNothing(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		one := storetest.Record(ns, "We saw Teo in Aldermouth with Orsolya.", nil)
		two := storetest.Record(ns, "We saw Teo in Brackwater.", nil)
		f.Insert(t, one, two)
		f.Drain(t, "graph", s)
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{one.ID}); err != nil {
			t.Fatal(err)
		}
		if got, want := sizes(t, f), [2]int{2, 2}; got != want {
			t.Errorf("%v rows, want %v", got, want)
		}
		consistent(t, f)
		expect(t, s, leg.Query{Text: "Orsolya"})
		expect(t, s, leg.Query{Text: "Teo"}, two)
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{two.ID}); err != nil {
			t.Fatal(err)
		}
		if got, want := sizes(t, f), [2]int{0, 0}; got != want {
			t.Errorf("%v rows, want %v", got, want)
		}
	})
}

func TestSensitive(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		secret := storetest.Record(ns, "The password of Canarywharf is Xyzzy.", func(r *record.Record) { r.Sensitive = true })
		open := storetest.Record(ns, "We met Teo in Aldermouth.", nil)
		f.Insert(t, secret, open)
		f.Drain(t, "graph", s)
		pretended := secret
		pretended.Sensitive = false
		if err := s.Index(t.Context(), []record.Record{secret, pretended}); err != nil {
			t.Fatal(err)
		}
		expect(t, s, leg.Query{Text: "Canarywharf"})
		if got, want := sizes(t, f), [2]int{2, 2}; got != want {
			t.Errorf("%v rows, want %v", got, want)
		}

		t.Run("the database refuses it", func(t *testing.T) {
			put(t, s, graph.Fact{Memory: open.ID, Subject: "Teo", Relation: "lives in", Object: "Aldermouth"})
			for _, sensitive := range []bool{false, true} {
				mentions := "graph.memory_concepts (namespace, concept_id, memory_id, sensitive, salience) SELECT namespace, concept_id, $1, $2, 1 FROM graph.memory_concepts LIMIT 1"
				if f.Engine == schema.SQLite {
					mentions = "graph_memories (namespace, memory_id, sensitive) SELECT namespace, $1, $2 FROM graph_memories LIMIT 1"
				}
				for _, insert := range []string{mentions, "%sfacts (namespace, source_id, target_id, relation, memory_id, sensitive, valid_from) SELECT namespace, source_id, target_id, relation, $1, $2, valid_from FROM %sfacts LIMIT 1"} {
					var err error
					if f.Engine == schema.Postgres {
						_, err = f.Pool.Exec(t.Context(), "INSERT INTO "+strings.ReplaceAll(insert, "%s", "graph."), secret.ID, sensitive)
					} else {
						_, err = f.DB.Write.ExecContext(t.Context(), "INSERT INTO "+strings.ReplaceAll(insert, "%s", "graph_"), secret.ID[:], sensitive)
					}
					if err == nil {
						t.Errorf("stored: %s", insert)
					}
				}
			}
		})
		t.Run("turning sensitive purges", func(t *testing.T) {
			if _, err := f.Memory.Update(t.Context(), ns, open.ID, 0, func(r *record.Record) error {
				r.Sensitive = true
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got, want := sizes(t, f), [2]int{0, 0}; got != want {
				t.Errorf("%v rows, want %v", got, want)
			}
			f.Drain(t, "graph", s)
			expect(t, s, leg.Query{Text: "Teo"})
		})
	})
}

func TestOnlyLiveMemories(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		expired := storetest.Record(ns, "We saw Teo in Aldermouth.", func(r *record.Record) { r.ExpiresAt = record.Now().Add(-time.Hour) })
		old := storetest.Record(ns, "We think that Teo lives in Brackwater.", nil)
		f.Insert(t, expired, old)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, old)
		current, _, err := f.Memory.Supersede(t.Context(), old.ID, 0, storetest.Record(ns, "We think that Teo lives in Kessel.", func(r *record.Record) { r.Importance = 0.9 }))
		if err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, current)
		expect(t, s, leg.Query{Text: "Teo", Filter: record.Filter{IncludeSuperseded: true}}, current, old)
	})
}

func TestFilters(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		a := storetest.Record(ns, "We saw Teo.", func(r *record.Record) {
			r.Tags, r.Category, r.CreatedAt, r.Importance = []string{"x", "y"}, "fact", at, 0.9
			r.Metadata = map[string]any{"room": "shed", "n": 1.0}
		})
		b := storetest.Record(ns, "We heard Teo.", func(r *record.Record) {
			r.Tags, r.Category, r.CreatedAt = []string{"y", "z"}, "event", at.Add(time.Hour)
		})
		f.Insert(t, a, b)
		f.Drain(t, "graph", s)
		expect(t, s, leg.Query{Text: "Teo"}, a, b)
		for _, tt := range []struct {
			filter record.Filter
			want   []record.Record
		}{
			{record.Filter{TagsAny: []string{"x", "q"}}, []record.Record{a}},
			{record.Filter{TagsAll: []string{"z", "y"}}, []record.Record{b}},
			{record.Filter{Categories: []string{"event"}}, []record.Record{b}},
			{record.Filter{CreatedFrom: at.Add(time.Minute)}, []record.Record{b}},
			{record.Filter{CreatedBefore: at.Add(time.Minute)}, []record.Record{a}},
			{record.Filter{Metadata: map[string]any{"room": "shed", "n": 1.0}}, []record.Record{a}},
			{record.Filter{Metadata: map[string]any{"n": "1"}}, nil},
		} {
			expect(t, s, leg.Query{Text: "Teo", Filter: tt.filter}, tt.want...)
		}
	})
}

func TestHubs(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		var crowd []record.Record
		for i := range 300 {
			crowd = append(crowd, storetest.Record(ns, fmt.Sprintf("we note that Maren saw Gull%d", i), nil))
		}
		teo := storetest.Record(ns, "we note that Maren met Teo", nil)
		f.Insert(t, append(crowd, teo)...)
		f.Drain(t, "graph", s)

		// Teo is linked to the hub Maren: the newest of what mentions her is reached, but not what she is linked with.
		hits := search(t, s, leg.Query{Text: "Teo", Depth: 1000}).Hits
		if len(hits) != 32 || hits[0].ID != teo.ID {
			t.Errorf("%d hits", len(hits))
		}
		for _, h := range hits[1:] {
			if h.Score != hits[1].Score {
				t.Fatalf("%v and %v: a gull was reached through the hub", h, hits[1])
			}
		}
		// In a query she does not link beside something specific.
		if named := search(t, s, leg.Query{Text: "Maren and Teo", Depth: 1000}).Hits; !slices.Equal(named, hits) {
			t.Errorf("naming the hub changes the search: %v, %v", named[0], hits[0])
		}
		expect(t, s, leg.Query{Text: "Maren and Gull7", Depth: 1}, crowd[7])
		if hits := search(t, s, leg.Query{Text: "Maren"}).Hits; len(hits) != 50 {
			t.Errorf("the hub alone finds %d", len(hits))
		}
		consistent(t, f)
	})
}

// world returns the same n memories for the same seed, ids and times included.
func world(seed uint64, n int) []record.Record {
	random := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(random, 1.1, 8, uint64(n))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name := func() string { return fmt.Sprintf("Name%dx", zipf.Uint64()) }
	records := make([]record.Record, n)
	for i := range records {
		var id uuid.UUID
		for j := range id {
			id[j] = byte(random.Uint32())
		}
		id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
		records[i] = record.Record{
			ID: id, Namespace: ns, Importance: float64(random.IntN(11)) / 10, Revision: 1,
			Content:   fmt.Sprintf("we noted that %s met %s in %s while name%dx and the boat of %s waited", name(), name(), name(), zipf.Uint64(), name()),
			CreatedAt: at.Add(time.Duration(random.IntN(1000)) * time.Second), UpdatedAt: at,
		}
		if random.IntN(3) == 0 {
			records[i].Title = "About " + name()
		}
		if random.IntN(2) == 0 {
			records[i].Tags = []string{name(), "boat"}
		}
		for range random.IntN(4) {
			target := records[random.IntN(i+1)]
			records[i].Links = append(records[i].Links, record.Link{Target: target.ID, Relation: "links_to"})
		}
	}
	return records
}

// agree fails the test unless results are equal: to the last digit if they are of one engine.
func agree(t *testing.T, a, b []leg.Result, within float64) (hits int) {
	t.Helper()
	for i, a := range a {
		b := b[i]
		if a.State != b.State && b.State != triskelev1.LegState_LEG_STATE_FALLBACK || len(a.Hits) != len(b.Hits) {
			t.Fatalf("query %d: %v with %d hits, %v with %d", i, a.State, len(a.Hits), b.State, len(b.Hits))
		}
		hits += len(a.Hits)
		for j := range a.Hits {
			x, y := a.Hits[j], b.Hits[j]
			if x.ID != y.ID || math.Abs(x.Score-y.Score) > within*x.Score || x.Importance != y.Importance || !x.CreatedAt.Equal(y.CreatedAt) || x.Concepts != y.Concepts {
				t.Fatalf("query %d, rank %d: %+v and %+v", i, j+1, x, y)
			}
			if len(a.Paths) > 0 && !slices.Equal(a.Paths[j], b.Paths[j]) {
				t.Fatalf("query %d, rank %d: %+v and %+v", i, j+1, a.Paths[j], b.Paths[j])
			}
		}
	}
	return hits
}

// TestHopsAgree: hop decay in memory finds the same on both stores, and nearly the same as hop decay in SQL.
func TestHopsAgree(t *testing.T) {
	var results [3][]leg.Result
	for i, f := range []*storetest.Fixture{storetest.Postgres(t), storetest.SQLite(t)} {
		s := open(f)
		records := world(1, 200)
		f.Insert(t, records...)
		for batch := range slices.Chunk(records, 32) {
			if err := s.Index(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		var facts []graph.Fact
		for n, r := range records[:60] {
			facts = append(facts, graph.Fact{
				Memory: r.ID, Subject: fmt.Sprintf("Name%dx", n%7), Relation: []string{"knows", "met", graph.AliasRelation}[n%3], Object: fmt.Sprintf("Name%dx", n%11+1),
				Single: n%2 == 0, From: r.CreatedAt, To: []time.Time{{}, r.CreatedAt.Add(10 * time.Minute)}[n%5/4],
			})
		}
		facts = slices.DeleteFunc(facts, func(f graph.Fact) bool { return f.Subject == f.Object })
		put(t, s, facts...)
		for _, r := range records[60:70] {
			if _, _, err := f.Memory.Supersede(t.Context(), r.ID, 0, replacing(r)); err != nil {
				t.Fatal(err)
			}
		}
		f.Drain(t, "graph", s)
		searches := map[int]leg.Searcher{i: s}
		if f.Engine == schema.Postgres {
			searches[2] = inSQL{s}
		}
		for at, s := range searches {
			random := rand.New(rand.NewPCG(3, 4))
			for n := range 40 {
				q := leg.Query{
					Text: fmt.Sprintf("where did Name%dx and name%dx go with the boats", random.IntN(60), random.IntN(200)), Depth: 1 + random.IntN(100), Explain: n%2 == 0,
				}
				switch n % 4 {
				case 1:
					q.AsOf = records[random.IntN(200)].CreatedAt
				case 2:
					q.Filter.TagsAny = []string{"boat"}
				case 3:
					q.Filter.IncludeSuperseded = true
				}
				results[at] = append(results[at], search(t, s, q))
			}
		}
	}
	if hits := agree(t, results[0], results[1], 0); hits < 500 {
		t.Errorf("only %d hits compared", hits)
	}
	agree(t, results[0], results[2], 1e-6)
}

// replacing returns the memory that replaces one, with the same id and times in all databases.
func replacing(r record.Record) record.Record {
	r.ID[15]++
	r.Content += " at last"
	r.Links = nil
	return r
}

func TestConcurrentWriters(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		records := world(2, 160)
		f.Insert(t, records...)
		var wg sync.WaitGroup
		errs := make(chan error, 1000)
		for w := range 4 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(5, uint64(w)))
				for range 4 {
					batch := make([]record.Record, 25)
					for i := range batch {
						batch[i] = records[random.IntN(len(records))]
					}
					errs <- s.Index(t.Context(), batch)
				}
			})
		}
		for w := range 2 {
			wg.Go(func() {
				for batch := range slices.Chunk(records[w*40:(w+1)*40], 8) {
					ids := make([]uuid.UUID, len(batch))
					for i, r := range batch {
						ids[len(batch)-1-i] = r.ID
					}
					_, err := f.Memory.Forget(t.Context(), ns, ids)
					errs <- err
				}
			})
		}
		wg.Go(func() {
			for _, r := range records[80:100] {
				_, err := f.Memory.Update(t.Context(), ns, r.ID, 0, func(r *record.Record) error {
					r.Sensitive = true
					return nil
				})
				errs <- err
				_, err = s.Search(t.Context(), leg.Query{Namespace: ns, Text: "the boat of name3x", Depth: 10})
				errs <- err
			}
		})
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		f.Drain(t, "graph", s)
		consistent(t, f)
		ids := make([]uuid.UUID, len(records))
		for i, r := range records {
			ids[i] = r.ID
		}
		if _, err := f.Memory.Forget(t.Context(), ns, ids); err != nil {
			t.Fatal(err)
		}
		if got, want := sizes(t, f), [2]int{0, 0}; got != want {
			t.Errorf("%v rows, want %v", got, want)
		}
	})
}

func TestCancelledSearchFails(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(f).Search(ctx, leg.Query{Namespace: ns, Text: "Teo", Depth: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
