package dense_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// benchmark searches 20,000 memories and reports the median and the 95th percentile.
func benchmark(b *testing.B, f *storetest.Fixture) {
	s, err := openWith(b, f, f.ImagesWith(b, replica.DefaultConfig()), embed.NewHashed())
	if err != nil {
		b.Fatal(err)
	}
	seed(b, f, "ns", 20000)
	for name, filter := range map[string]record.Filter{
		"all": {},
		"1%":  {TagsAny: []string{"rare"}},
		"50%": {CreatedFrom: time.Date(2025, 1, 1, 0, 0, 10000, 0, time.UTC)},
	} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(5, 5))
			var spent []time.Duration
			for b.Loop() {
				start := time.Now()
				result, err := s.Search(b.Context(), leg.Query{Namespace: "ns", Text: sentence(rng, 6), Depth: 50, Filter: filter})
				if err != nil || len(result.Hits) != 50 {
					b.Fatalf("%d hits, %v", len(result.Hits), err)
				}
				spent = append(spent, time.Since(start))
			}
			slices.Sort(spent)
			b.ReportMetric(float64(spent[len(spent)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(spent[len(spent)*95/100].Microseconds()), "p95-µs")
		})
	}
}

func BenchmarkPostgres(b *testing.B) { benchmark(b, storetest.Postgres(b)) }

func BenchmarkSQLite(b *testing.B) { benchmark(b, storetest.SQLite(b)) }
