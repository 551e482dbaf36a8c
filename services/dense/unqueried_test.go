package dense_test

import (
	"context"
	"math"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// constant has a component beyond a whole pack that all documents share and no query has, as the built-in model.
type constant map[string][3]float32

const constantAt = 19

func (constant) Model() embed.Model {
	return embed.Model{Provider: "test", Name: "constant", Dimensions: constantAt + 1, QueryDimensions: 3}
}

func (c constant) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return embed.Each(ctx, texts, func(text string) []float32 { return c.vector(text, 1) })
}

func (c constant) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return c.vector(text, 0), nil
}

func (c constant) vector(text string, last float32) []float32 {
	vector, of := make([]float32, constantAt+1), c[text]
	copy(vector, of[:])
	vector[constantAt] = last
	return vector
}

// TestUnqueriedComponents: what no query has counts for the length of a vector only.
func TestUnqueriedComponents(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		model := constant{"east": {1, 0, 0}, "north-east": {0.6, 0.8, 0}, "up": {0, 0, 1}}
		s, c := mustOpen(t, f, model), corpus{}
		c.add(t, f, s, "east", "east", nil)
		c.add(t, f, s, "north-east", "north-east", nil)
		expect := func(result leg.Result, east, northEast float64) {
			t.Helper()
			c.expect(t, result, "east", "north-east")
			for i, want := range []float64{east, northEast} {
				if got := result.Hits[i].Score; math.Abs(got-want) > 2e-4 {
					t.Errorf("hit %d scores %v, want %v", i, got, want)
				}
			}
		}
		expect(search(t, s, "east", nil), math.Sqrt2/2, 0.6*math.Sqrt2/2)
		expect(search(t, s, "", func(q *leg.Query) { q.Vector = model.vector("east", 7) }), math.Sqrt2/2, 0.6*math.Sqrt2/2)
		if got := search(t, s, "", func(q *leg.Query) { q.Vector = model.vector("", 1) }); got.State != triskelev1.LegState_LEG_STATE_ABSTAINED || len(got.Hits) > 0 {
			t.Errorf("a vector that no query has: got %v with %d hits, want ABSTAINED without any", got.State, len(got.Hits))
		}

		// Vectors that change together are not taken for each other.
		for name, text := range map[string]string{"east": "north-east", "north-east": "up"} {
			if _, err := f.Memory.Update(t.Context(), "ns", c[name].ID, 0, func(r *record.Record) error { r.Content = text; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		f.Drain(t, "dense", s)
		expect(search(t, s, "east", nil), 0.6*math.Sqrt2/2, 0)
	})
}
