package train

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/triskele/triskele/services/embed/tokens"
)

// vocabulary are the stems that get rows of their own, most frequent first, and those that do not.
type vocabulary struct {
	words  []string // the first rows of them are known
	counts []int64
	rows   int
	ids    map[string]int32
	total  int64
}

// stems calls fn with the stem of each word of a text.
func stems(folded []byte, text string, fn func(stem []byte)) []byte {
	folded = tokens.Fold(folded, text)
	for start, end := tokens.Next(folded, 0); start < end; start, end = tokens.Next(folded, end) {
		fn(tokens.Stem(tokens.Cut(folded[start:end])))
	}
	return folded
}

// newVocabulary counts the stems of n texts and gives rows to the most frequent ones that occur at least twice.
func newVocabulary(n int, text func(i int) string, rows int) *vocabulary {
	var mu sync.Mutex
	sums := map[string]int64{}
	parallel(n, func(from, to int) {
		counts := map[string]*int64{}
		var folded []byte
		for i := from; i < to; i++ {
			folded = stems(folded, text(i), func(stem []byte) {
				if count := counts[string(stem)]; count != nil {
					*count++
					return
				}
				one := int64(1)
				counts[string(stem)] = &one
			})
		}
		mu.Lock()
		defer mu.Unlock()
		for word, count := range counts {
			sums[word] += *count
		}
	})
	v := &vocabulary{ids: make(map[string]int32, len(sums))}
	v.words = slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	for i, word := range v.words {
		v.ids[word] = int32(i)
		v.counts = append(v.counts, sums[word])
		v.total += sums[word]
		if i < rows && sums[word] > 1 {
			v.rows = i + 1
		}
	}
	return v
}

// encode returns the ids of the stems of n texts, at most limit each.
func (v *vocabulary) encode(n int, text func(i int) string, limit int) [][]int32 {
	out := make([][]int32, n)
	parallel(n, func(from, to int) {
		var folded []byte
		var buffer []int32
		for i := from; i < to; i++ {
			buffer = buffer[:0]
			folded = stems(folded, text(i), func(stem []byte) {
				if len(buffer) < limit {
					buffer = append(buffer, v.ids[string(stem)])
				}
			})
			out[i] = slices.Clone(buffer)
		}
	})
	return out
}

// parallel calls fn for all parts of 0..n, one for each processor at a time. What a part computes must not depend on how
// many there are.
func parallel(n int, fn func(from, to int)) {
	workers := runtime.GOMAXPROCS(0)
	parts := min(n, 32*workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for part := int(next.Add(1)) - 1; part < parts; part = int(next.Add(1)) - 1 {
				fn(part*n/parts, (part+1)*n/parts)
			}
		})
	}
	wg.Wait()
}
