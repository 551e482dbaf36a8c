package dense_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// BenchmarkIndexing embeds and stores the vectors of memories in batches of a worker, on PostgreSQL also with an HNSW index.
func BenchmarkIndexing(b *testing.B) {
	const memories, batch = 5000, 64
	for name, open := range map[string]func(testing.TB) *storetest.Fixture{"postgres": storetest.Postgres, "sqlite": storetest.SQLite} {
		for _, withIndex := range []bool{false, true} {
			f := open(b)
			if withIndex && f.Engine == schema.SQLite {
				continue
			}
			s := mustOpen(b, f, embed.NewHashed())
			records := seed(b, f, "ns", memories)
			for statement, wanted := range map[string]bool{
				`DELETE FROM dense.vectors`: f.Engine == schema.Postgres,
				`DELETE FROM dense_vectors`: f.Engine == schema.SQLite,
				`CREATE INDEX ON dense.vectors USING hnsw ((embedding::halfvec(256)) halfvec_ip_ops) WITH (m = 24, ef_construction = 128) WHERE model_id = 1`: withIndex,
			} {
				if !wanted {
					continue
				}
				if err := exec(f, statement); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("%s/hnsw=%v", name, withIndex), func(b *testing.B) {
				var n int
				begun := time.Now()
				for b.Loop() {
					from := n % (memories / batch) * batch
					var some []record.Record
					for _, r := range records[from : from+batch] {
						r.Revision = int64(2 + n)
						some = append(some, r)
					}
					if err := s.Index(b.Context(), some); err != nil {
						b.Fatal(err)
					}
					n++
				}
				b.ReportMetric(float64(n*batch)/time.Since(begun).Seconds(), "memories/s")
			})
		}
	}
}
