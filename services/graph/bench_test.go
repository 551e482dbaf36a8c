package graph_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/storetest"
)

var arcs = flag.String("arcs", "5000", "for BenchmarkTraversal: about how many mentions and links the graphs have, separated by commas")

// BenchmarkTraversal names two concepts in a graph of a Zipfian vocabulary. Beside the median and the 95th percentile of a
// search it says what a memory took to index, what reading the whole graph into memory took and takes, and what a search
// takes that has to catch up with one changed memory first.
func BenchmarkTraversal(b *testing.B) {
	for size := range strings.SplitSeq(*arcs, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(size+"/postgres", func(b *testing.B) { traversal(b, storetest.Postgres(b), n/8) })
		b.Run(size+"/sqlite", func(b *testing.B) { traversal(b, storetest.SQLite(b), n/8) })
	}
}

func traversal(b *testing.B, f *storetest.Fixture, memories int) {
	s := open(f)
	records := world(1, memories)
	start := time.Now()
	for batch := range slices.Chunk(records, 500) {
		f.Insert(b, batch...)
		if err := s.Index(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	perMemory := time.Since(start) / time.Duration(memories)
	if f.Pool != nil {
		if _, err := f.Pool.Exec(b.Context(), "VACUUM ANALYZE memory.memories, graph.concepts, graph.memory_concepts, graph.concept_edges, graph.memory_links, graph.link_ends"); err != nil {
			b.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	query := func(traversal triskelev1.Traversal) leg.Query {
		return leg.Query{Text: fmt.Sprintf("where did Name%dx and name%dx go", random.IntN(500), random.IntN(memories)), Traversal: traversal}
	}
	for _, traversal := range []triskelev1.Traversal{triskelev1.Traversal_TRAVERSAL_HOP_DECAY, triskelev1.Traversal_TRAVERSAL_PAGERANK} {
		b.Run(strings.ToLower(strings.TrimPrefix(traversal.String(), "TRAVERSAL_")), func(b *testing.B) {
			before := heap()
			start := time.Now()
			search(b, s, query(traversal))
			first := time.Since(start)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				search(b, s, query(traversal))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*95/100]), "p95-ms")
			b.ReportMetric(ms(first), "first-ms")
			if traversal != triskelev1.Traversal_TRAVERSAL_PAGERANK {
				b.ReportMetric(ms(perMemory), "index-ms/memory")
				return
			}
			b.ReportMetric(float64(heap()-before)/(1<<20), "MB")
			changed, err := f.Memory.Update(b.Context(), ns, records[0].ID, 0, func(r *record.Record) error {
				r.Content += " with Orsolya"
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Index(b.Context(), []record.Record{changed}); err != nil {
				b.Fatal(err)
			}
			start = time.Now()
			search(b, s, query(traversal))
			b.ReportMetric(ms(time.Since(start)), "catch-up-ms")
			view, err := s.(graph.Viewer).View(b.Context(), ns)
			if err != nil {
				b.Fatal(err)
			}
			stats := view.Stats()
			b.ReportMetric(float64(stats.Mentions+stats.Facts+stats.Links), "arcs")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
