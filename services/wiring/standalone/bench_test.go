package standalone_test

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// absent is an embedder that nobody answers for.
type absent struct{ embed.Embedder }

func (absent) EmbedDocuments(context.Context, []string) ([][]float32, error) {
	return nil, syscall.ECONNREFUSED
}

// BenchmarkRemember stores memories, in turn with an embedder that works, one that hangs and one that is absent. It
// reports the percentiles of each, and their ratios to the one that works.
func BenchmarkRemember(b *testing.B) {
	for _, engine := range []struct {
		name   string
		config func() standalone.Config
	}{
		{"postgres", func() standalone.Config { return standalone.Config{Postgres: pgtest.New(b)} }},
		{"sqlite", func() standalone.Config { return standalone.Config{SQLite: filepath.Join(b.TempDir(), "bench.db")} }},
	} {
		b.Run(engine.name, func(b *testing.B) {
			embedders := []struct {
				name string
				embed.Embedder
			}{
				{"works", embed.NewHashed()}, {"hangs", hanging{embed.NewHashed(), make(chan struct{})}}, {"absent", absent{embed.NewHashed()}},
			}
			clients, times := make([]triskelev1.MemoryServiceClient, len(embedders)), make([][]time.Duration, len(embedders))
			req := &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: "The Heron crane is serviced in spring, before the ice on the river breaks."}}
			store := func(client triskelev1.MemoryServiceClient) time.Duration {
				begun := time.Now()
				if _, err := client.Remember(b.Context(), req); err != nil {
					b.Fatal(err)
				}
				return time.Since(begun)
			}
			for i, e := range embedders {
				_, clients[i] = start(b, engine.config(), e.Embedder)
				for range 20 { // connections and plans are warm
					store(clients[i])
				}
			}
			for b.Loop() {
				for i, client := range clients {
					times[i] = append(times[i], store(client))
				}
			}
			for i, e := range embedders {
				for name, share := range map[string]float64{"p50": 0.5, "p95": 0.95} {
					took := percentile(times[i], share)
					b.ReportMetric(float64(took.Microseconds()), name+"-"+e.name+"-µs")
					if i > 0 {
						b.ReportMetric(float64(took)/float64(percentile(times[0], share)), name+"-"+e.name+"/works")
					}
				}
			}
		})
	}
}

// percentile is the least time that a share p of the times does not exceed.
func percentile(times []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
