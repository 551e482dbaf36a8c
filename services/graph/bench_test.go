package graph_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var (
	arcs   = flag.String("arcs", "5000", "for BenchmarkTraversal: about how many mentions and links the graphs have, separated by commas")
	report = flag.String("report", "", "file for BenchmarkTraversal's figures as a table")
)

// figures are what a line of the report says, by the names of the metrics.
type figures struct {
	size, engine string
	of           map[string]float64
}

// BenchmarkTraversal names two concepts in a graph of a Zipfian vocabulary. Beside the median and the 95th percentile of a
// search it says what a memory took to index, what reading the whole graph into memory took and takes, and what a search
// takes that has to catch up with one changed memory first. In PostgreSQL it searches under the role of the graph service.
func BenchmarkTraversal(b *testing.B) {
	var lines []figures
	before := load()
	for size := range strings.SplitSeq(*arcs, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			b.Fatal(err)
		}
		for engine, fixture := range map[string]func(testing.TB) *storetest.Fixture{"PostgreSQL": storetest.Postgres, "SQLite": storetest.SQLite} {
			b.Run(size+"/"+engine, func(b *testing.B) { lines = append(lines, figures{size, engine, traversal(b, fixture(b), n/8)}) })
		}
	}
	if *report != "" {
		if err := os.WriteFile(*report, table(lines, before), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// load is how many processes wanted to run in the last minute, on average; empty if the system does not tell.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(text), " ")
	return average
}

// table is the report.
func table(lines []figures, load string) []byte {
	slices.SortStableFunc(lines, func(a, b figures) int {
		return cmp.Or(cmp.Compare(len(a.size), len(b.size)), cmp.Compare(a.size, b.size), cmp.Compare(a.engine, b.engine))
	})
	var out strings.Builder
	fmt.Fprintf(&out, `# Searching the graph, by its size

    make bench-graph

One client stores and indexes memories of a Zipfian vocabulary in its own process. Each of its queries has two names, one
of which many memories share.

- Date: %s
- Machine: %s; load before the run: %s
- Settings: the graph's defaults, %d searches a cell, the 50 best memories of one namespace. PostgreSQL on the same machine, over a
  Unix socket, by the graph service's role and under row-level security. Vectors of the built-in embedder.
- **PageRank**: a search with the graph in memory, including the check of its version, the filter and the hits' rows.
- **first**: the first search, which reads the whole graph into memory, as a rebuild does. **catch up**: a search after
  one memory has changed. **memory**: the size of the graph in memory, including vectors.
- **hop decay**: the same queries by hop decay: on PostgreSQL as recursive SQL, on SQLite over the copy in memory.
- **index**: time to index a memory, including embedding.

| arcs | store | PageRank p50 | p95 | first | catch up | memory | hop decay p50 | p95 | index |
|---|---|---|---|---|---|---|---|---|---|
`, time.Now().UTC().Format(time.DateOnly), eval.ThisMachine(), load, int(lines[0].of["searches"]))
	for _, l := range lines {
		v := l.of
		fmt.Fprintf(&out, "| %.0f | %s | %.2f ms | %.2f ms | %.0f ms | %.1f ms | %.1f MB | %.2f ms | %.2f ms | %.2f ms |\n", v["arcs"], l.engine, v["pagerank p50-ms"],
			v["pagerank p95-ms"], v["pagerank first-ms"], v["catch-up-ms"], v["MB"], v["hop_decay p50-ms"], v["hop_decay p95-ms"], v["index-ms/memory"])
	}
	return []byte(out.String())
}

func traversal(b *testing.B, f *storetest.Fixture, memories int) map[string]float64 {
	said := map[string]float64{}
	embedder, err := static.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	config := graph.Config{}
	config.Embedder = embedder
	s := openWith(f, config)
	records := world(1, memories)
	for i := range records {
		records[i].Title = strings.TrimPrefix(records[i].Title, "About ") // so that some names have a memory of their own
	}
	searching := s
	start := time.Now()
	for batch := range slices.Chunk(records, 500) {
		f.Insert(b, batch...)
		if err := s.Index(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	perMemory := time.Since(start) / time.Duration(memories)
	if f.Pool != nil {
		if _, err := f.Pool.Exec(b.Context(), "VACUUM ANALYZE memory.memories, graph.concepts, graph.memory_concepts, graph.facts, graph.memory_links, graph.link_ends"); err != nil {
			b.Fatal(err)
		}
		pool, err := postgres.Open(b.Context(), pgtest.Login(b, f.Pool.Config().ConnString(), "graph"), f.Tel)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		store := sqldb.Store{Pool: pool}
		images := replica.New(b.Context(), store, replica.DefaultConfig(), f.Tel.MeterProvider.Meter("test"), storetest.Log())
		searching = graph.New(store, images, f.Queue, config)
	}
	random := rand.New(rand.NewPCG(3, 4))
	query := func(traversal triskelev1.Traversal) leg.Query {
		return leg.Query{Text: fmt.Sprintf("where did Name%dx and name%dx go", random.IntN(500), random.IntN(memories)), Traversal: traversal}
	}
	for _, traversal := range []triskelev1.Traversal{triskelev1.Traversal_TRAVERSAL_HOP_DECAY, triskelev1.Traversal_TRAVERSAL_PAGERANK} {
		b.Run(strings.ToLower(strings.TrimPrefix(traversal.String(), "TRAVERSAL_")), func(b *testing.B) {
			before := heap()
			start := time.Now()
			search(b, searching, query(traversal))
			first := time.Since(start)
			var took []time.Duration
			answered := 0
			for b.Loop() {
				start := time.Now()
				if len(search(b, searching, query(traversal)).Hits) > 0 {
					answered++
				}
				took = append(took, time.Since(start))
			}
			if answered < len(took)/2 {
				b.Fatalf("%d of %d searches found something", answered, len(took))
			}
			slices.Sort(took)
			said["searches"] = float64(len(took))
			b.ReportMetric(0, "ns/op")
			say := func(v float64, name string) {
				b.ReportMetric(v, name)
				if strings.HasPrefix(name, "p") || name == "first-ms" {
					name = strings.ToLower(strings.TrimPrefix(traversal.String(), "TRAVERSAL_")) + " " + name
				}
				said[name] = v
			}
			say(ms(took[len(took)/2]), "p50-ms")
			say(ms(took[len(took)*95/100]), "p95-ms")
			say(ms(first), "first-ms")
			if traversal != triskelev1.Traversal_TRAVERSAL_PAGERANK {
				say(ms(perMemory), "index-ms/memory")
				return
			}
			say(float64(heap()-before)/(1<<20), "MB")
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
			search(b, searching, query(traversal))
			say(ms(time.Since(start)), "catch-up-ms")
			view, err := s.View(b.Context(), ns)
			if err != nil {
				b.Fatal(err)
			}
			stats := view.Stats()
			view.Close()
			say(float64(stats.Mentions+stats.Facts+stats.Links), "arcs")
		})
	}
	return said
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
