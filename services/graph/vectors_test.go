package graph_test

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// meanings is an embedder that knows what some words mean, and calls itself as it is told. A text is as near to another as
// they have things in common.
type meanings struct {
	name string
	err  error
}

// thing is what a word means, if it is not itself.
var thing = map[string]string{
	"watchmen": "keepers", "port": "harbour", "entrance": "gatehouse", "bought": "acquired", "whole": "fenwright", "town": "brackwater",
}

func (m *meanings) Model() embed.Model {
	return embed.Model{Provider: "test", Name: m.name, Dimensions: 512, Local: true}
}

func (m *meanings) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := m.EmbedDocuments(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

func (m *meanings) EmbedDocuments(_ context.Context, texts []string) ([][]float32, error) {
	if m.err != nil {
		return nil, m.err
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, m.Model().Dimensions)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			sum := fnv.New32()
			_, _ = io.WriteString(sum, cmp.Or(thing[word], word))
			vectors[i][sum.Sum32()%512]++
		}
	}
	return vectors, nil
}

// means opens the graph with vectors of a model.
func means(f *storetest.Fixture, embedder embed.Embedder) *graph.Leg {
	config := graph.Config{}
	config.Embedder = embedder
	return openWith(f, config)
}

// index stores memories and has the graph take them in.
func index(t *testing.T, f *storetest.Fixture, s *graph.Leg, records ...record.Record) {
	t.Helper()
	f.Insert(t, records...)
	if err := s.Index(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// found says whether a search by a vector found a memory.
func found(t *testing.T, s *graph.Leg, q leg.Query, r record.Record) bool {
	t.Helper()
	for _, h := range search(t, s, q).Hits {
		if h.ID == r.ID {
			return true
		}
	}
	return false
}

// vectors counts the stored vectors of a model.
func vectors(t *testing.T, f *storetest.Fixture, model embed.Embedder) int {
	t.Helper()
	where := "vector_model = '" + model.Model().String() + "'"
	return count(t, f, "concepts", where) + count(t, f, "facts", where)
}

// TestMeaning: a query that names nothing links to what is near to it in meaning: a concept, or a fact.
func TestMeaning(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		model := &meanings{name: "first"}
		s := means(f, model)
		harbour := storetest.Record(ns, "It is painted green.", func(r *record.Record) { r.Title = "Harbour gatehouse keepers" })
		beside := tagged("Nothing else.", "harbour gatehouse keepers")
		owner := storetest.Record(ns, "owner", nil)
		index(t, f, s, harbour, beside, owner)
		if _, err := s.PutFacts(t.Context(), ns, []graph.Fact{
			{Memory: owner.ID, Subject: "Fenwright", Relation: "acquired", Object: "Brackwater"},
		}); err != nil {
			t.Fatal(err)
		}
		near := leg.Query{Text: "watchmen entrance port"}
		stated := leg.Query{Text: "bought whole town"}
		if !found(t, s, near, harbour) || !found(t, s, near, beside) {
			t.Errorf("%q finds %v", near.Text, search(t, s, near))
		}
		if !found(t, s, stated, owner) {
			t.Errorf("%q finds %v", stated.Text, search(t, s, stated))
		}
		if r := search(t, s, leg.Query{Text: "quarterly tax declaration"}); r.State != triskelev1.LegState_LEG_STATE_ABSTAINED {
			t.Errorf("a query about something else: %+v", r)
		}
		// Without an embedder, or with one that fails, names link as ever.
		model.err = errors.New("down")
		if found(t, s, near, harbour) || !found(t, s, leg.Query{Text: "harbour gatehouse keepers"}, harbour) {
			t.Error("an embedder that fails")
		}
	})
}

// TestVectorsFollow: vectors go with what they were made of, and are made anew for another model, never mixed.
func TestVectorsFollow(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		first, second := &meanings{name: "first"}, &meanings{name: "second"}
		s := means(f, first)
		a, b := tagged("a", "harbour gatehouse keepers"), tagged("b", "harbour gatehouse keepers", "lighthouse")
		index(t, f, s, a, b)
		if _, err := s.PutFacts(t.Context(), ns, []graph.Fact{
			{Memory: b.ID, Subject: "Fenwright", Relation: "acquired", Object: "Brackwater"},
		}); err != nil {
			t.Fatal(err)
		}
		if n := vectors(t, f, first); n != 5 { // four concepts and a fact
			t.Errorf("%d vectors", n)
		}
		if err := s.CheckModel(t.Context(), ns); err != nil {
			t.Errorf("the model of the vectors: %v", err)
		}
		if err := means(f, second).CheckModel(t.Context(), ns); err == nil {
			t.Error("another model: got no error")
		}
		if err := means(f, second).CheckModel(t.Context(), "empty"); err != nil {
			t.Errorf("no vectors: %v", err)
		}
		near := leg.Query{Text: "watchmen entrance port"}
		other := means(f, second)
		if found(t, other, near, a) {
			t.Error("a vector of another model was compared")
		}
		other.Refresh(t.Context(), storetest.Log())
		if !found(t, other, near, a) || vectors(t, f, first) != 0 || vectors(t, f, second) != 5 {
			t.Errorf("%d vectors of the first model, %d of the second", vectors(t, f, first), vectors(t, f, second))
		}
		if found(t, s, near, a) {
			t.Error("the first model goes on with vectors that are gone") // once it has caught up
		}
		if _, err := f.Memory.Update(t.Context(), ns, b.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := vectors(t, f, second); n != 1 {
			t.Errorf("%d vectors are left of what both mention", n)
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{a.ID}); err != nil {
			t.Fatal(err)
		}
		if n := vectors(t, f, second); n != 0 || found(t, other, near, a) {
			t.Errorf("%d vectors are left of nothing", n)
		}
	})
}

// A memory that goes, or that mentions nothing, changes its own names alone: those of others are not read again, however many there are.
func TestForgettingReadsNoNames(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := means(f, &meanings{name: "first"})
		kept, gone := tagged("a", "harbour gatehouse keepers"), storetest.Record(ns, "it rained", nil)
		index(t, f, s, kept, gone)
		near := leg.Query{Text: "watchmen entrance port"}
		if !found(t, s, near, kept) {
			t.Fatal("not found by its meaning")
		}
		var err error
		if f.Engine == schema.Postgres {
			_, err = f.Pool.Exec(t.Context(), "UPDATE graph.concepts SET vector = NULL, vector_model = NULL")
		} else {
			_, err = f.DB.Write.ExecContext(t.Context(), "UPDATE graph_concepts SET vector = NULL, vector_model = NULL")
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.Forget(t.Context(), ns, []uuid.UUID{gone.ID}); err != nil {
			t.Fatal(err)
		}
		if !found(t, s, near, kept) {
			t.Error("names of other memories were read again")
		}
	})
}

// Resolving names of which none is known reads no others, however many there are.
func TestResolvingReadsNoOtherNames(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := open(f)
		index(t, f, s, tagged("a", "harbour gatehouse keepers"))
		got, err := s.Resolve(t.Context(), ns, []string{"Harbour Gatehouse Keepers", "fenwright"})
		if want := map[string]string{"Harbour Gatehouse Keepers": "harbour gatehouse keepers"}; err != nil || !maps.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
		if f.Engine != schema.Postgres { // which alone lets a name become one that cannot be read
			return
		}
		for _, statement := range []string{"ALTER TABLE graph.concepts ALTER COLUMN name DROP NOT NULL", "UPDATE graph.concepts SET name = NULL"} {
			if _, err := f.Pool.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Resolve(t.Context(), ns, []string{"fenwright"}); err != nil || len(got) > 0 {
			t.Errorf("got %v, %v, want nothing", got, err)
		}
	})
}

// TestVectorsAreNotLost: names that the embedder could not have are in the queue until it can, and linked by name meanwhile.
func TestVectorsAreNotLost(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		model := &meanings{name: "first", err: errors.New("down")}
		s := means(f, model)
		r := tagged("a", "harbour gatehouse keepers")
		f.Insert(t, r)
		if err := s.Index(t.Context(), []record.Record{r}); err == nil {
			t.Error("no error")
		}
		if !found(t, s, leg.Query{Text: "harbour gatehouse keepers"}, r) {
			t.Error("not found by its name")
		}
		model.err = nil
		f.Drain(t, "graph", s)
		if !found(t, s, leg.Query{Text: "watchmen entrance port"}, r) {
			t.Error("not found by its meaning")
		}
	})
}

func TestEmptyVectorsAreKept(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		model := &nothing{meanings{name: "nothing"}}
		s := means(f, model)
		index(t, f, s, tagged("a", "lighthouse"))
		if n := vectors(t, f, model); n != 1 {
			t.Errorf("%d marks", n)
		}
		if f.Engine == schema.Postgres && count(t, f, "concepts", "octet_length(vector) = 0") != 1 {
			t.Error("a vector that points nowhere has components")
		}
	})
}

// nothing finds nothing in any text.
type nothing struct{ meanings }

func (n *nothing) EmbedDocuments(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = make([]float32, n.Model().Dimensions)
	}
	return out, nil
}

// sending is an embedder that sends texts to a server, which hears them.
type sending struct {
	meanings
	before func() // they are sent
	server *endpoint.Endpoint
}

func (s *sending) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	s.before()
	if _, _, err := s.server.Post(ctx, "", []byte(strings.Join(texts, "\n")), 100); err != nil {
		return nil, err
	}
	return s.meanings.EmbedDocuments(ctx, texts)
}

// TestNamesAreAskedAboutBeforeTheyAreSent: a memory turns sensitive between its names being read and being sent.
func TestNamesAreAskedAboutBeforeTheyAreSent(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var heard atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			heard.Add(n)
		}))
		t.Cleanup(server.Close)
		e, err := endpoint.New(server.URL, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		canary := tagged("a", "canary gatehouse")
		s := means(f, &sending{meanings: meanings{name: "elsewhere"}, server: e, before: func() {
			if _, err := f.Memory.Update(t.Context(), ns, canary.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
				t.Error(err)
			}
		}})
		f.Insert(t, canary)
		if err := s.Index(t.Context(), []record.Record{canary}); !errors.Is(err, endpoint.ErrWithdrawn) || heard.Load() != 0 {
			t.Errorf("%v, and the server heard %d bytes", err, heard.Load())
		}
	})
}

// stuck is an embedder that does not answer.
type stuck struct{ meanings }

func (*stuck) EmbedQuery(ctx context.Context, _ string) ([]float32, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A search does not wait for the embedder as long as another one may.
func TestStuckEmbedder(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	index(t, f, openWith(f, graph.Config{}), tagged("It is painted green.", "harbour gatehouse keepers"))
	s := means(f, &stuck{meanings{name: "first"}})
	first, cancel := context.WithCancel(t.Context())
	patient := make(chan struct{})
	go func() {
		defer close(patient)
		_, _ = s.Search(first, leg.Query{Namespace: ns, Text: "watchmen entrance port", Depth: 10})
	}()
	hurried, end := context.WithTimeout(t.Context(), 2*time.Second)
	defer end()
	if result, err := s.Search(hurried, leg.Query{Namespace: ns, Text: "watchmen entrance port", Depth: 10}); err != nil || len(result.Hits) > 0 {
		t.Errorf("got %v, %v; want no hits", result, err)
	}
	select {
	case <-patient:
		t.Error("the search with time ended first")
	default:
	}
	cancel()
	<-patient
}

// foreign knows no word of the samples' language.
type foreign struct{ meanings }

func (f *foreign) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := f.EmbedDocuments(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

func (f *foreign) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	out, err := f.meanings.EmbedDocuments(ctx, texts)
	for i, text := range texts {
		if !strings.HasPrefix(text, "灯") && err == nil {
			clear(out[i])
		}
	}
	return out, err
}

// TestModelOfAnotherLanguage: a model for which the samples have no meaning links nothing by meaning, instead of everything.
func TestModelOfAnotherLanguage(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := means(f, &foreign{meanings{name: "foreign"}})
		index(t, f, s, tagged("a", "灯台"), tagged("b", "灯籠"))
		if got := search(t, s, ranked("灯火 lantern")); len(got.Hits) > 0 {
			t.Errorf("got %+v, want no hits", got.Hits)
		}
	})
}
