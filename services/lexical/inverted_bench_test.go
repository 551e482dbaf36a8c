package lexical

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// benchWords returns n words of a Zipfian vocabulary of 200,000, as content words of a natural language.
func benchWords(zipf *rand.Zipf, n int) string {
	const letters = "bdfgklmnprtvz"
	words := make([]string, n)
	for i := range words {
		var b strings.Builder
		for k := zipf.Uint64() + 52; k > 0; k /= 52 {
			b.WriteByte(letters[k%52/4])
			b.WriteByte("aiou"[k%4])
		}
		words[i] = b.String()
	}
	return strings.Join(words, " ")
}

// benchImage returns an image of memories of 20 to 80 words, the forward rows, and queries of 3 to 10 words of a memory.
func benchImage(b *testing.B, size int) (image *inverted, ids []uuid.UUID, forward [][]byte, queries []string) {
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.1, 50, 200_000-1)
	rows := replica.NewRows()
	simple := languages["english"]
	for i := range size {
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:], uint64(i))
		memory := replica.Memory{ID: id, Created: int64(i), Thread: fmt.Sprint(i / 50), Position: int64(i)}
		for name, share := range map[string]int{"tenth": 10, "hundredth": 100, "thousandth": 1000} {
			if random.IntN(share) == 0 {
				memory.Tags = append(memory.Tags, name)
			}
		}
		rows.Put(memory)
		r := record.Record{Content: benchWords(zipf, 20+random.IntN(61))}
		ids, forward = append(ids, id), append(forward, encode(r, simple.occurrences(r)))
		if len(queries) < 500 && i%(size/500) == 0 {
			words := strings.Fields(r.Content)
			random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			queries = append(queries, strings.Join(words[:3+random.IntN(8)], " "))
		}
	}
	return load(b, rows, ids, forward), ids, forward, queries
}

func load(b *testing.B, rows *replica.Rows, ids []uuid.UUID, forward [][]byte) *inverted {
	image := newInverted(rows)
	if err := image.load(b.Context(), func(put func(uuid.UUID, []byte)) error {
		for i, id := range ids {
			put(id, forward[i])
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return image
}

// cpuTime is the time that the process has computed. Unlike the time of a clock it does not depend on other processes.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkImage measures loading, searching and replacing without a database.
func BenchmarkImage(b *testing.B) {
	for _, size := range []int{20_000, 200_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			image, ids, forward, queries := benchImage(b, size)
			total := 0
			for _, row := range forward {
				total += len(row)
			}
			b.Run("load", func(b *testing.B) {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				var loaded *inverted
				i, start := 0, cpuTime()
				for ; b.Loop(); i++ {
					loaded = load(b, image.rows, ids, forward)
				}
				b.ReportMetric(float64(cpuTime()-start)/float64(i)/1e6, "cpu-ms/op")
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(size), "heapB/memory")
				b.ReportMetric(float64(loaded.Bytes())/float64(size), "countedB/memory")
				b.ReportMetric(float64(total)/float64(size), "storedB/memory")
			})
			for name, way := range map[string]struct {
				filter record.Filter
				borrow float64
				more   string
			}{
				"unfiltered": {}, "misspelt": {more: " xenoblade"}, "borrowing": {borrow: 1}, "tenth": {filter: record.Filter{TagsAny: []string{"tenth"}}},
				"hundredth": {filter: record.Filter{TagsAny: []string{"hundredth"}}}, "thousandth": {filter: record.Filter{TagsAny: []string{"thousandth"}}},
			} {
				b.Run(name, func(b *testing.B) {
					i, start := 0, cpuTime()
					defer func() { b.ReportMetric(float64(cpuTime()-start)/float64(i)/1000, "cpu-µs/op") }()
					for b.Loop() {
						q := leg.Query{Text: queries[i%len(queries)] + way.more, Depth: 50, Filter: way.filter, Borrow: way.borrow, MarkExact: true}
						s := newBM25(b.Context(), image, image.rows.Select(way.filter, time.Time{}), understand(q.Text, image.settings))
						if _, err := s.search(b.Context(), q); err != nil {
							b.Fatal(err)
						}
						i++
					}
				})
			}
			b.Run("replace", func(b *testing.B) {
				i := 0
				for b.Loop() {
					image.put(b.Context(), uint32(i*7919%size), forward[i*104729%size])
					i++
				}
			})
		})
	}
}
