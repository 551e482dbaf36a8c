package lexical_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// word returns the i-th most frequent word of the seeded corpus.
func word(i int) string { return fmt.Sprintf("w%do", i) }

// text returns n words of a Zipfian vocabulary of 20,000.
func text(zipf *rand.Zipf, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = word(int(zipf.Uint64()))
	}
	return strings.Join(words, " ")
}

// seed stores n memories of 20 to 80 words in namespace "ns", the same in each run but for ids and times.
func seed(t testing.TB, f *storetest.Fixture, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 10, 19999)
	for n > 0 {
		batch := make([]record.Record, min(n, 500))
		for i := range batch {
			batch[i] = storetest.Record("ns", text(zipf, 20+random.IntN(61)), nil)
		}
		f.Insert(t, batch...)
		n -= len(batch)
	}
}

// BenchmarkSearch asks for 3 to 10 words, as frequent as in the memories, among 5,000 memories.
func BenchmarkSearch(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(testing.TB) *storetest.Fixture
	}{{"postgres", storetest.Postgres}, {"sqlite", storetest.SQLite}} {
		b.Run(engine.name, func(b *testing.B) {
			f := engine.open(b)
			seed(b, f, 5000)
			if f.Pool != nil {
				if _, err := f.Pool.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
					b.Fatal(err)
				}
			}
			searcher := searcher(b, f)
			random := rand.New(rand.NewPCG(3, 4))
			zipf := rand.NewZipf(random, 1.1, 10, 19999)
			for b.Loop() {
				if _, err := searcher.Search(b.Context(), leg.Query{Namespace: "ns", Text: text(zipf, 3+random.IntN(8)), Depth: 50}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
