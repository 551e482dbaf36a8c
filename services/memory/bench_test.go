package memory_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var memories = flag.Int("memories", 2000, "how many memories the benchmarks rename and delete")

// word spells a number in syllables.
func word(n uint64) string {
	var b strings.Builder
	for b.Len() < 4 || n > 0 {
		b.WriteByte("bdfgklmnprstvz"[n%14])
		b.WriteByte("aeiou"[n/14%5])
		n /= 70
	}
	return b.String()
}

func claim(b *testing.B, f *storetest.Fixture, index string) []queue.Task {
	tasks, err := f.Queue.Claim(b.Context(), index, 500, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	return tasks
}

// BenchmarkNamespace renames a namespace whose memories are in all indexes, and reports how long deleting it takes.
func BenchmarkNamespace(b *testing.B) {
	for engine, open := range map[schema.Engine]func(testing.TB) *storetest.Fixture{schema.Postgres: storetest.Postgres, schema.SQLite: storetest.SQLite} {
		b.Run(string(engine), func(b *testing.B) {
			f := open(b)
			l := newLegs(b, f)
			random := rand.New(rand.NewPCG(1, 2))
			zipf := rand.NewZipf(random, 1.1, 10, 19999)
			for n := *memories; n > 0; {
				batch := make([]record.Record, min(n, 500))
				for i := range batch {
					words := make([]string, 20+random.IntN(21))
					for j := range words {
						words[j] = word(zipf.Uint64())
					}
					batch[i] = storetest.Record("name-0", strings.Join(words, " ")+" Q"+word(uint64(random.IntN(5000))), func(r *record.Record) {
						r.Title = "Q" + word(uint64(random.IntN(*memories)))
						r.Tags = []string{"q" + word(uint64(random.IntN(500))), "q" + word(uint64(random.IntN(500)))}
					})
				}
				f.Insert(b, batch...)
				n -= len(batch)
			}
			for name, indexer := range map[string]queue.Indexer{"dense": l.dense, "graph": l.graph} {
				for tasks := claim(b, f, name); len(tasks) > 0; tasks = claim(b, f, name) {
					records := make([]record.Record, len(tasks))
					for i, task := range tasks {
						records[i] = task.Record
					}
					if err := errors.Join(indexer.Index(b.Context(), records), f.Queue.Done(b.Context(), name, tasks)); err != nil {
						b.Fatal(err)
					}
				}
			}
			name := 0
			for b.Loop() {
				if n, err := f.Memory.RenameNamespace(b.Context(), fmt.Sprintf("name-%d", name), fmt.Sprintf("name-%d", name+1)); err != nil || n != int64(*memories) {
					b.Fatalf("%d memories, %v", n, err)
				}
				name++
			}
			start := time.Now()
			if _, err := f.Memory.DeleteNamespace(b.Context(), fmt.Sprintf("name-%d", name)); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(start).Seconds(), "s/deletion")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/rename")
		})
	}
}

// BenchmarkSynchronous stores memories on SQLite, one and two hundred at a time, without and with a flush to the disk for each
// transaction.
func BenchmarkSynchronous(b *testing.B) {
	for _, n := range []int{1, 200} {
		for _, level := range []string{"NORMAL", "FULL"} {
			b.Run(fmt.Sprintf("%d/%s", n, level), func(b *testing.B) {
				f := storetest.SQLite(b)
				if _, err := f.DB.Write.ExecContext(b.Context(), "PRAGMA synchronous="+level); err != nil {
					b.Fatal(err)
				}
				text := strings.Repeat("The Kestrel nests on the tower by the harbour. ", 10)
				var took []time.Duration
				for b.Loop() {
					records := make([]record.Record, n)
					for i := range records {
						records[i] = storetest.Record("n", text, nil)
					}
					start := time.Now()
					if _, err := f.Memory.Insert(b.Context(), records); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
				b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "memories/s")
			})
		}
	}
}

// BenchmarkWriters stores memories one at a time from eight clients, into one namespace or each into its own. Writers of one namespace
// wait for each other's commits, so the server should flush them: TRISKELE_TEST_DURABLE=on.
func BenchmarkWriters(b *testing.B) {
	const clients = 8
	f := storetest.Postgres(b)
	for _, of := range []string{"one namespace", "a namespace each"} {
		b.Run(of, func(b *testing.B) {
			var client atomic.Int64
			b.SetParallelism(clients / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				namespace := "shared"
				if n := client.Add(1); of != "one namespace" {
					namespace = fmt.Sprint("own-", n)
				}
				for pb.Next() {
					if _, err := f.Memory.Insert(b.Context(), []record.Record{storetest.Record(namespace, "The Kestrel nests on the tower by the harbour.", nil)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "memories/s")
		})
	}
}
