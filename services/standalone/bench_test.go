package standalone_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/postgres/pgtest"
	"github.com/triskele/triskele/services/standalone"
)

// BenchmarkRemember stores memories, in turn with an embedder that works and with one that hangs. It reports the
// percentiles of both and their ratios, hanging to working.
func BenchmarkRemember(b *testing.B) {
	for engine, config := range map[string]func(b *testing.B) standalone.Config{
		"postgres": func(b *testing.B) standalone.Config { return standalone.Config{Postgres: pgtest.New(b)} },
		"sqlite": func(b *testing.B) standalone.Config {
			return standalone.Config{SQLite: filepath.Join(b.TempDir(), "bench.db")}
		},
	} {
		b.Run(engine, func(b *testing.B) {
			_, working := start(b, config(b), embed.NewHashed())
			_, hung := start(b, config(b), hanging{embed.NewHashed(), make(chan struct{})})
			req := &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: "The Heron crane is serviced in spring, before the ice on the river breaks."}}
			store := func(client triskelev1.MemoryServiceClient) time.Duration {
				begun := time.Now()
				if _, err := client.Remember(b.Context(), req); err != nil {
					b.Fatal(err)
				}
				return time.Since(begun)
			}
			for range 20 { // connections and plans are warm
				store(working)
				store(hung)
			}
			var times [2][]time.Duration
			for b.Loop() {
				times[0], times[1] = append(times[0], store(working)), append(times[1], store(hung))
			}
			for name, p := range map[string]float64{"p50": 0.5, "p95": 0.95} {
				ok, bad := percentile(times[0], p), percentile(times[1], p)
				b.ReportMetric(float64(ok.Microseconds()), name+"-ok-µs")
				b.ReportMetric(float64(bad.Microseconds()), name+"-hanging-µs")
				b.ReportMetric(float64(bad)/float64(ok), name+"-ratio")
			}
		})
	}
}

// percentile is the least time that a share p of the times does not exceed.
func percentile(times []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
