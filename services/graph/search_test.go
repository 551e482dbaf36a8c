package graph_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestExpiredTakeNoPlaces: however many of the best have expired, those after them are found.
func TestExpiredTakeNoPlaces(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s := openWith(f, graph.Config{})
		records := make([]record.Record, 40)
		for i := range records {
			records[i] = storetest.Record(ns, fmt.Sprintf("%d: all quiet.", i), func(r *record.Record) {
				r.Title = "Kittiwake" // the best score
				if r.ExpiresAt = record.Now().Add(-time.Hour); i >= 35 {
					r.Title, r.Tags, r.ExpiresAt, r.Importance = "", []string{"Kittiwake"}, time.Time{}, float64(40-i)/10
				}
			})
		}
		index(t, f, s, records...)
		for range 2 { // the second finds the graph in memory
			if got := find(t, f, s, leg.Query{Text: "Kittiwake", Depth: 3}); got != "35: 36: 37:" {
				t.Errorf("found %s", got)
			}
		}
	})
}

// counting is an embedder that counts queries.
type counting struct {
	meanings
	queries int
}

func (c *counting) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	c.queries++
	return c.meanings.EmbedQuery(ctx, text)
}

// TestNamesNeedNoVector: a query whose names link is not embedded, until the graph has changed.
func TestNamesNeedNoVector(t *testing.T) {
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		model := &counting{meanings: meanings{name: "first"}}
		s := means(f, model)
		gate := tagged("It is painted green.", "harbour gatehouse keepers")
		index(t, f, s, gate)
		named, meant := leg.Query{Text: "harbour gatehouse keepers"}, leg.Query{Text: "watchmen entrance port"}
		found(t, s, meant, gate) // which learns the model's scale
		for _, tt := range []struct {
			query leg.Query
			want  int
		}{{named, 0}, {meant, 1}} {
			before := model.queries
			if !found(t, s, tt.query, gate) || model.queries != before+tt.want {
				t.Errorf("%q was embedded %d times, want %d", tt.query.Text, model.queries-before, tt.want)
			}
		}
		another := tagged("Another.", "harbour gatehouse keepers")
		index(t, f, s, another)
		if !found(t, s, named, another) {
			t.Error("what has come since the last search is not found")
		}
	})
}
