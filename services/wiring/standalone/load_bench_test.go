package standalone_test

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// BenchmarkLoad times the first recall of a process among 50,000 memories, which waits for the namespace to be loaded: all of it, or
// what the question needs. It reports the processor time of the process, and what its heap keeps.
func BenchmarkLoad(b *testing.B) {
	memories, queries := notes(50_000)
	embedder, err := static.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	for name, config := range map[string]standalone.Config{
		"sqlite": {SQLite: filepath.Join(b.TempDir(), "bench.db")}, "postgres": {Postgres: pgtest.New(b)},
	} {
		b.Run(name, func(b *testing.B) {
			filled := false
			for name, brief := range map[string]bool{"all": false, "brief": true} {
				b.Run(name, func(b *testing.B) {
					if !filled {
						recalls, memory := start(b, config, embedder)
						importAll(b, recalls, memory, memories)
						filled = true
					}
					config := config
					config.Embedder, config.AskOnly = embedder, brief
					var computed time.Duration
					var before, after runtime.MemStats
					n, heap := 0, uint64(0)
					for ; b.Loop(); n++ {
						b.StopTimer()
						system, err := startSystem(b, config)
						if err != nil {
							b.Fatal(err)
						}
						runtime.GC()
						runtime.ReadMemStats(&before)
						begun := cpuTime()
						b.StartTimer()
						if _, err := triskelev1.NewRecallServiceClient(system.Conn).Recall(b.Context(), &triskelev1.RecallRequest{
							Namespaces: []string{"n"}, Query: queries[n%len(queries)], Budget: durationpb.New(patience), RequiredLegs: []string{"lexical", "dense"},
						}); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						computed += cpuTime() - begun
						runtime.GC()
						runtime.ReadMemStats(&after)
						heap = after.HeapAlloc - before.HeapAlloc
						if err := system.Close(); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					b.ReportMetric(float64(computed.Microseconds())/float64(n*len(memories)), "cpu-µs/memory")
					b.ReportMetric(float64(heap)/float64(len(memories)), "heapB/memory")
				})
			}
		})
	}
}
