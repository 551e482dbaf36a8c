package dense_test

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
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestNearestFirst(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "cello", "Ottilie plays the cello on Thursdays", nil)
		c.add(t, f, s, "sensors", "soil sensors are deployed in Aldermouth", nil)
		c.add(t, f, s, "sensor", "one sensor needs a new battery", nil)
		result := search(t, s, "deploying soil sensors", nil)
		c.expect(t, result, "sensors", "sensor", "cello")
		if result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_COSINE || result.State > triskelev1.LegState_LEG_STATE_OK || result.Vector != nil {
			t.Errorf("score kind %v, state %v, vector %v", result.ScoreKind, result.State, result.Vector)
		}
		first := result.Hits[0]
		if r := c["sensors"]; first.Importance != r.Importance || !first.CreatedAt.Equal(r.CreatedAt) || first.Score < 0.5 || first.Score > 1 {
			t.Errorf("hit %+v", first)
		}
		c.expect(t, search(t, s, "deploying soil sensors", func(q *leg.Query) { q.Depth = 2 }), "sensors", "sensor")
		if self := search(t, s, "one sensor needs a new battery", nil).Hits[0]; self.ID != c["sensor"].ID || self.Score != 1 {
			t.Errorf("a text's own score is %v, want 1", self.Score)
		}
	})
}

func TestTies(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		ids := []uuid.UUID{uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())}
		same := func(id uuid.UUID) func(*record.Record) {
			return func(r *record.Record) { r.ID, r.CreatedAt = id, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
		}
		c.add(t, f, s, "same2", "the backup runs at night", same(ids[1]))
		c.add(t, f, s, "same1", "the backup runs at night", same(ids[0]))
		c.add(t, f, s, "old", "the backup runs at night", nil)
		c.add(t, f, s, "newer", "the backup runs at night", nil)
		c.add(t, f, s, "important", "the backup runs at night", func(r *record.Record) { r.Importance = 0.9 })
		all := []string{"important", "same1", "same2", "newer", "old"}
		for depth := 1; depth <= len(all); depth++ {
			c.expect(t, search(t, s, "backup", func(q *leg.Query) { q.Depth = depth }), all[:depth]...)
		}
	})
}

func TestNamespacesAreApart(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "mine", "the backup runs at night", nil)
		c.add(t, f, s, "theirs", "the backup runs at night", func(r *record.Record) { r.Namespace = "other" })
		c.expect(t, search(t, s, "backup", nil), "mine")
		c.expect(t, search(t, s, "backup", func(q *leg.Query) { q.Namespace = "other" }), "theirs")
		c.expect(t, search(t, s, "backup", func(q *leg.Query) { q.Namespace = "nobody" }))
	})
}

func TestUpdateEmbedsAnew(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		old := c.add(t, f, s, "a", "the cello lesson is on Thursday", nil)
		before := search(t, s, "cello", nil).Hits[0].Score
		update := func(content string) record.Record {
			t.Helper()
			r, err := f.Memory.Update(t.Context(), "ns", old.ID, 0, func(r *record.Record) error { r.Content = content; return nil })
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		update("the varnish is in the shed")
		f.Drain(t, "dense", s)
		if after := search(t, s, "cello", nil).Hits[0].Score; after >= before/2 {
			t.Errorf("the old text still scores %v of %v", after, before)
		}
		score := search(t, s, "varnish", nil).Hits[0].Score

		// A worker that was held up since before the update must not undo it.
		if err := s.Index(t.Context(), []record.Record{old}); err != nil {
			t.Fatal(err)
		}
		if got := search(t, s, "varnish", nil).Hits[0].Score; got != score || vectors(t, f) != 1 {
			t.Errorf("a stale revision changed the score from %v to %v", score, got)
		}

		update("…")
		f.Drain(t, "dense", s)
		c.expect(t, search(t, s, "varnish", nil))
		if vectors(t, f) != 0 {
			t.Error("a text without a vector kept the one before")
		}
		update("varnish again")
		f.Drain(t, "dense", s)
		c.expect(t, search(t, s, "varnish", nil), "a")
	})
}

func TestRepeatedIndexing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		a := c.add(t, f, s, "a", "the cello lesson", nil)
		b := c.add(t, f, s, "b", "the backup", nil)
		for range 2 {
			if err := s.Index(t.Context(), []record.Record{b, a, b}); err != nil {
				t.Fatal(err)
			}
		}
		c.expect(t, search(t, s, "cello", nil), "a", "b")
		status, err := s.Status(t.Context(), "ns")
		if err != nil || status.Indexed != 2 || vectors(t, f) != 2 {
			t.Errorf("%+v, %v", status, err)
		}
		if err := s.Index(t.Context(), nil); err != nil {
			t.Errorf("no records: %v", err)
		}
	})
}

func TestForgetLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		gone := c.add(t, f, s, "gone", "the cello lesson is on Thursday", nil)
		c.add(t, f, s, "kept", "the cello is in the hall", nil)
		search(t, s, "cello", nil) // reads the vectors before they go
		if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{gone.ID}); err != nil {
			t.Fatal(err)
		}
		c.expect(t, search(t, s, "cello", nil), "kept")
		if err := s.Index(t.Context(), []record.Record{gone}); err != nil { // was under way when the memory was forgotten
			t.Fatal(err)
		}
		if n := vectors(t, f); n != 1 {
			t.Errorf("%d vectors are stored, want 1", n)
		}
		if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{c["kept"].ID}); err != nil {
			t.Fatal(err)
		}
		c.expect(t, search(t, s, "cello", nil))
		if n := vectors(t, f); n != 0 {
			t.Errorf("%d vectors are stored, want none", n)
		}
	})
}

// listener notes which texts reach the model.
type listener struct {
	embed.Hashed
	mu    sync.Mutex
	texts []string
}

func (l *listener) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, texts...)
	return l.Hashed.EmbedDocuments(ctx, texts)
}

func TestSensitiveIsNeverEmbedded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		heard := &listener{}
		s, c := mustOpen(t, f, heard), corpus{}
		secret := c.add(t, f, s, "secret", "canary: the safe opens with 4711", func(r *record.Record) { r.Sensitive = true })
		plain := c.add(t, f, s, "plain", "the safe is in the hall", nil)
		if err := s.Index(t.Context(), []record.Record{secret, plain}); err != nil {
			t.Fatal(err)
		}
		for _, text := range heard.texts {
			if strings.Contains(text, "canary") {
				t.Error("the text of a sensitive memory was embedded")
			}
		}
		c.expect(t, search(t, s, "canary safe 4711", nil), "plain")

		disguised := secret
		disguised.Sensitive = false // as claimed before it was turned sensitive
		if err := s.Index(t.Context(), []record.Record{disguised}); err != nil {
			t.Fatal(err)
		}
		if n := vectors(t, f); n != 1 {
			t.Errorf("%d vectors are stored, want 1", n)
		}

		if _, err := f.Memory.Update(t.Context(), "ns", plain.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := vectors(t, f); n != 0 {
			t.Errorf("%d vectors are stored after the memory was turned sensitive, want none", n)
		}
		c.expect(t, search(t, s, "safe in the hall", nil))

		f.Drain(t, "dense", s)
		if _, err := f.Memory.Update(t.Context(), "ns", plain.ID, 0, func(r *record.Record) error { r.Sensitive = false; return nil }); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "dense", s)
		c.expect(t, search(t, s, "safe in the hall", nil), "plain")
	})
}

func TestDatabaseRefusesSensitiveVectors(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		secret := c.add(t, f, s, "secret", "the safe opens with 4711", func(r *record.Record) { r.Sensitive = true })
		vector := make([]float32, 256)
		vector[0] = 1
		for _, sensitive := range []bool{true, false} {
			var err error
			if f.Engine == schema.Postgres {
				_, err = f.Pool.Exec(t.Context(), `INSERT INTO dense.vectors (namespace, memory_id, model_id, sensitive, revision, embedding) VALUES ('ns', $1, 1, $2, 1, $3::float4[]::halfvec)`,
					secret.ID, sensitive, vector)
			} else {
				_, err = f.DB.Write.ExecContext(t.Context(), `INSERT INTO dense_vectors (namespace, memory_id, model_id, sensitive, revision, embedding) VALUES ('ns', ?, 1, ?, 1, ?)`,
					secret.ID[:], sensitive, halves(vector))
			}
			if err == nil {
				t.Errorf("a vector of a sensitive memory was stored as sensitive=%v", sensitive)
			}
		}
	})
}

func TestOnlyLiveMemories(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		old := c.add(t, f, s, "old", "the standup is at nine", nil)
		c.add(t, f, s, "expired", "the standup is at eight this week", func(r *record.Record) { r.ExpiresAt = record.Now().Add(-time.Hour) })
		c.add(t, f, s, "expiring", "the standup is short this month", func(r *record.Record) { r.ExpiresAt = record.Now().Add(time.Hour) })
		replacement := storetest.Record("ns", "the standup is at ten now", nil)
		c["new"] = replacement
		if _, _, err := f.Memory.Supersede(t.Context(), old.ID, 0, replacement); err != nil {
			t.Fatal(err)
		}
		f.Drain(t, "dense", s)
		c.expect(t, search(t, s, "standup at ten now", nil), "new", "expiring")
		// More of the best are dead than are asked for.
		c.expect(t, search(t, s, "standup is at nine", func(q *leg.Query) { q.Depth = 1 }), "new")
		all := search(t, s, "the standup is at nine", func(q *leg.Query) { q.Filter.IncludeSuperseded = true })
		c.expect(t, all, "old", "new", "expiring")

		// Superseded between claim and indexing.
		if err := s.Index(t.Context(), []record.Record{old}); err != nil {
			t.Fatal(err)
		}
		c.expect(t, search(t, s, "the standup is at nine", func(q *leg.Query) { q.Filter.IncludeSuperseded = true; q.Depth = 1 }), "old")
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "a", "backup report a", func(r *record.Record) {
			r.Tags, r.Category, r.Metadata = []string{"ops", "night"}, "fact", map[string]any{"host": "db1", "n": 1.0, "ok": true}
		})
		c.add(t, f, s, "b", "backup report b", func(r *record.Record) {
			r.Tags, r.Category, r.Metadata = []string{"ops"}, "task", map[string]any{"host": "db2", "n": "1"}
		})
		c.add(t, f, s, "c", "backup report c", nil)
		for name, tc := range map[string]struct {
			filter record.Filter
			want   []string
		}{
			"tags any":       {record.Filter{TagsAny: []string{"night", "ops"}}, []string{"a", "b"}},
			"tags all":       {record.Filter{TagsAll: []string{"night", "ops"}}, []string{"a"}},
			"categories":     {record.Filter{Categories: []string{"task", "none"}}, []string{"b"}},
			"created from":   {record.Filter{CreatedFrom: c["b"].CreatedAt}, []string{"b", "c"}},
			"created before": {record.Filter{CreatedBefore: c["b"].CreatedAt}, []string{"a"}},
			"metadata text":  {record.Filter{Metadata: map[string]any{"host": "db1"}}, []string{"a"}},
			"metadata type":  {record.Filter{Metadata: map[string]any{"n": 1.0}}, []string{"a"}},
			"metadata bool":  {record.Filter{Metadata: map[string]any{"ok": true}}, []string{"a"}},
			"joined":         {record.Filter{TagsAny: []string{"ops"}, Categories: []string{"task"}}, []string{"b"}},
			"nothing":        {record.Filter{TagsAny: []string{"nobody"}}, []string{}},
		} {
			result := search(t, s, "backup report", func(q *leg.Query) { q.Filter = tc.filter })
			got := c.names(result)
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: found %v, want %v", name, got, tc.want)
			}
		}
	})
}

func TestGivenVector(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "cello", "the cello lesson", nil)
		c.add(t, f, s, "backup", "the backup runs at night", nil)
		byText := search(t, s, "the cello lesson", func(q *leg.Query) { q.ReturnVector = true })
		if len(byText.Vector) != 256 {
			t.Fatalf("the vector has %d dimensions", len(byText.Vector))
		}
		long := slices.Clone(byText.Vector)
		for i := range long {
			long[i] *= 1e6 // beyond half precision
		}
		for _, vector := range [][]float32{byText.Vector, long} {
			// The vector counts, not the text.
			byVector := search(t, s, "backup", func(q *leg.Query) { q.Vector, q.ReturnVector = vector, true })
			c.expect(t, byVector, "cello", "backup")
			if byVector.Hits[0].Score != byText.Hits[0].Score {
				t.Errorf("the vector scores %v, its text %v", byVector.Hits[0].Score, byText.Hits[0].Score)
			}
		}
		for _, vector := range [][]float32{make([]float32, 3), {float32(math.NaN())}} {
			_, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Vector: vector, Depth: 1})
			var field *record.FieldError
			if !errors.As(err, &field) || field.Field != "vector" || field.MustBe != "must have 256 dimensions, those of model builtin/hashed-ngrams-v1" {
				t.Errorf("%d dimensions: %v", len(vector), err)
			}
		}
		broken := slices.Clone(byText.Vector)
		broken[7] = float32(math.Inf(1))
		var field *record.FieldError
		if _, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Vector: broken, Depth: 1}); !errors.As(err, &field) {
			t.Errorf("an infinite component: %v", err)
		}
	})
}

func TestScoresOfSingleMemories(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "cello", "Ottilie plays the cello on Thursdays", nil)
		c.add(t, f, s, "sensors", "soil sensors are deployed in Aldermouth", nil)
		c.add(t, f, s, "secret", "the cello is behind the boiler", func(r *record.Record) { r.Sensitive = true })
		c.add(t, f, s, "theirs", "their cello", func(r *record.Record) { r.Namespace = "other" })
		found := search(t, s, "who plays the cello", func(q *leg.Query) { q.ReturnVector = true })
		want := map[uuid.UUID]float64{}
		for _, hit := range found.Hits {
			want[hit.ID] = hit.Score
		}
		ids := []uuid.UUID{c["cello"].ID, c["sensors"].ID, c["secret"].ID, c["theirs"].ID, uuid.New()}
		for name, q := range map[string]leg.Query{
			"text":   {Namespace: "ns", Text: "who plays the cello"},
			"vector": {Namespace: "ns", Text: "who plays the cello", Vector: found.Vector},
		} {
			scores, kind, err := s.(leg.Scorer).Scores(t.Context(), q, ids)
			if err != nil || kind != triskelev1.ScoreKind_SCORE_KIND_COSINE || len(scores) != 2 {
				t.Fatalf("%s: %v, %v, %v", name, scores, kind, err)
			}
			for _, score := range scores {
				// The vector that a search returns has been rounded once more.
				if math.Abs(score.Score-want[score.ID]) > 1e-3 || name == "text" && score.Score != want[score.ID] {
					t.Errorf("%s: %v scores %v, in a search %v", name, score.ID, score.Score, want[score.ID])
				}
			}
		}
		if scores, _, err := s.(leg.Scorer).Scores(t.Context(), leg.Query{Namespace: "ns"}, ids); err != nil || len(scores) != 0 {
			t.Errorf("nothing to score by: %v, %v", scores, err)
		}
	})
}

func TestAbstains(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "a", "the cello lesson", nil)
		c.add(t, f, s, "empty", "…", nil)
		for name, result := range map[string]leg.Result{
			"nothing":      search(t, s, "", nil),
			"empty vector": search(t, s, "?!", nil),
			"zero vector":  search(t, s, "cello", func(q *leg.Query) { q.Vector = make([]float32, 256) }),
		} {
			if result.State != triskelev1.LegState_LEG_STATE_ABSTAINED || result.Reason == "" || len(result.Hits) > 0 {
				t.Errorf("%s: %+v", name, result)
			}
		}
		c.expect(t, search(t, s, "cello", nil), "a")
	})
}

// failing is an embedder that embeds no query.
type failing struct{ embed.Embedder }

func (failing) EmbedQuery(context.Context, string) ([]float32, error) {
	return nil, errors.New("down")
}

func TestFallbackEmbedder(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		embedder, err := querypath.New(failing{embed.NewHashed()}, embed.NewHashed(), 1<<20, noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		s, c := mustOpen(t, f, embedder), corpus{}
		c.add(t, f, s, "a", "the crane is serviced in spring", nil)
		result := search(t, s, "crane service", nil)
		c.expect(t, result, "a")
		if result.State != triskelev1.LegState_LEG_STATE_FALLBACK || !strings.Contains(result.Reason, "fallback embedder") {
			t.Errorf("the leg says %v: %q", result.State, result.Reason)
		}
		// What the second embedder made is as good as the first's.
		if result := search(t, s, "crane service", nil); result.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED || result.Reason != "" {
			t.Errorf("with the remembered vector the leg says %v: %q", result.State, result.Reason)
		}
	})
}

func TestMinScore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "both", "soil sensor", nil)
		c.add(t, f, s, "one", "soil and something else entirely", nil)
		c.add(t, f, s, "none", "the cello lesson", nil)
		all := search(t, s, "soil sensor", nil)
		c.expect(t, all, "both", "one", "none")
		for i, hit := range all.Hits {
			least := hit.Score
			c.expect(t, search(t, s, "soil sensor", func(q *leg.Query) { q.MinScore = &least }), c.names(all)[:i+1]...)
		}
		least := 1.5
		c.expect(t, search(t, s, "soil sensor", func(q *leg.Query) { q.MinScore = &least }))
	})
}

// impostor is a model of another name or size.
type impostor struct {
	embed.Hashed
	model embed.Model
}

func (i impostor) Model() embed.Model { return i.model }

func TestOneModel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		mustOpen(t, f, embed.NewHashed())
		mustOpen(t, f, embed.NewHashed())
		for _, model := range []embed.Model{{Provider: "ollama", Name: "other", Dimensions: 256}, {Provider: "builtin", Name: "hashed-ngrams-v1", Dimensions: 64}} {
			_, err := open(t, f, impostor{model: model})
			if err == nil {
				t.Fatal("a second model was accepted")
			}
			for _, part := range []string{"builtin/hashed-ngrams-v1 (256", fmt.Sprintf("%s/%s (%d", model.Provider, model.Name, model.Dimensions), "run `triskele reembed` with the same --embedder"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not say %q", err, part)
				}
			}
		}
		if _, err := open(t, f, impostor{model: embed.Model{Provider: "builtin", Name: "static-en-v9", Dimensions: 384}}); err == nil || !strings.Contains(err.Error(), "To stay with the present model, give the --embedder") {
			t.Errorf("the error %v does not say how to stay with the present model", err)
		}
		if _, err := open(t, f, impostor{model: embed.Model{Provider: "x", Name: "y", Dimensions: 5000}}); err == nil {
			t.Error("5,000 dimensions were accepted")
		}
		if n := count(t, f, `SELECT count(*) FROM dense.models`, `SELECT count(*) FROM dense_models`); n != 1 {
			t.Errorf("%d models are registered, want 1", n)
		}
	})
}

// A built-in model of an earlier release cannot be configured.
func TestRetiredModel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		mustOpen(t, f, impostor{model: embed.Model{Provider: "builtin", Name: "static-en-v1", Dimensions: 256}})
		_, err := open(t, f, embed.NewHashed())
		if err == nil || !strings.Contains(err.Error(), "run `triskele reembed`") || strings.Contains(err.Error(), "--embedder that names it") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestFirstModelIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { _, errs[i] = open(t, f, embed.NewHashed()) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
}

// broken is a model that does not keep its promises.
type broken struct {
	embed.Hashed
	vectors [][]float32
	err     error
}

func (b broken) EmbedDocuments(context.Context, []string) ([][]float32, error) {
	return b.vectors, b.err
}

func (b broken) EmbedQuery(context.Context, string) ([]float32, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.vectors[0], nil
}

func TestBrokenModels(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		infinite := make([]float32, 256)
		infinite[3] = float32(math.Inf(-1))
		cause := errors.New("out of order")
		for name, model := range map[string]broken{
			"error": {err: cause}, "too short": {vectors: [][]float32{{1}}}, "not finite": {vectors: [][]float32{infinite}},
			"too many": {vectors: [][]float32{infinite[:255], infinite[:255]}},
		} {
			s := mustOpen(t, f, model)
			r := storetest.Record("ns", "secret words", nil)
			f.Insert(t, r)
			err := s.Index(t.Context(), []record.Record{r})
			if err == nil || model.err != nil && !errors.Is(err, cause) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: indexing gives %v", name, err)
			}
			_, err = s.Search(t.Context(), leg.Query{Namespace: "ns", Text: "secret words", Depth: 1})
			if err == nil || model.err != nil && !errors.Is(err, cause) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: searching gives %v", name, err)
			}
		}
		if n := vectors(t, f); n != 0 {
			t.Errorf("%d vectors are stored, want none", n)
		}
		// A text that the database cannot be asked about is not the embedder's fault.
		s := mustOpen(t, f, broken{err: fmt.Errorf("%w: %w", endpoint.ErrUnchecked, cause)})
		_, err := s.Search(t.Context(), leg.Query{Namespace: "ns", Text: "secret words", Depth: 1})
		if _, blamed := errors.AsType[*leg.UnableError](err); blamed || !errors.Is(err, cause) {
			t.Errorf("unchecked: got %v, want %v alone", err, cause)
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "a", "indexed", nil)
		f.Insert(t, storetest.Record("ns", "pending", nil))
		status, err := s.Status(t.Context(), "ns")
		if err != nil {
			t.Fatal(err)
		}
		if status.Indexed != 1 || status.Pending != 1 || status.Dead != 0 || status.Lag <= 0 || status.Model != "builtin/hashed-ngrams-v1 (256 dimensions)" {
			t.Errorf("%+v", status)
		}
		if status, err = s.Status(t.Context(), "nobody"); err != nil || status.Indexed != 0 || status.Pending != 0 {
			t.Errorf("an unknown namespace: %+v, %v", status, err)
		}
	})
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "a", "the cello lesson", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Search(ctx, leg.Query{Namespace: "ns", Text: "cello", Depth: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled search gives %v", err)
		}
		c.expect(t, search(t, s, "cello", nil), "a")
	})
}

// Both engines must rank the same memories alike.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	records := make([]record.Record, 300)
	for i := range records {
		records[i] = storetest.Record("ns", sentence(rng, 3+rng.IntN(25)), func(r *record.Record) {
			r.CreatedAt = time.Date(2025, 1, 1, 0, 0, i, 0, time.UTC)
			r.Importance = float64(rng.IntN(5)) / 4
			if rng.IntN(2) == 0 {
				r.Title = sentence(rng, 3)
			}
			if i%3 == 0 {
				r.Tags = []string{"third"}
			}
		})
	}
	queries := make([]leg.Query, 20)
	for i := range queries {
		queries[i] = leg.Query{Namespace: "ns", Text: sentence(rng, 1+rng.IntN(8)), Depth: 5 + 10*rng.IntN(6)}
		if i%4 == 0 {
			queries[i].Filter.TagsAny = []string{"third"}
		}
	}
	results := func(f *storetest.Fixture) []leg.Result {
		s := mustOpen(t, f, embed.NewHashed())
		f.Insert(t, records...)
		f.Drain(t, "dense", s)
		var results []leg.Result
		for _, q := range queries {
			result, err := s.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, result)
		}
		return results
	}
	inPostgres, inSQLite := results(storetest.Postgres(t)), results(storetest.SQLite(t))
	for i := range queries {
		a, b := inPostgres[i].Hits, inSQLite[i].Hits
		if len(a) != queries[i].Depth || len(b) != len(a) {
			t.Fatalf("query %d: %d and %d hits, want %d", i, len(a), len(b), queries[i].Depth)
		}
		for j := range a {
			if a[j].ID != b[j].ID || a[j].Score != b[j].Score {
				t.Errorf("query %d: hit %d is %s with %v on PostgreSQL and %s with %v on SQLite", i, j, a[j].ID, a[j].Score, b[j].ID, b[j].Score)
			}
		}
	}
}
