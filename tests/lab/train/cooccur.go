package train

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// sparse is a square matrix; row i has the values[i] at columns[i], in order of the columns.
type sparse struct {
	columns [][]uint16
	values  [][]float32
}

// cooccur counts how often the known words occur within o.Window words of each other in the same text, and returns
// the positive pointwise mutual information of each pair that occurs together at least o.MinPairs times:
// max(0, log(#(i,j)·D / (#i·#j))) (Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization", 2014).
// Frequent words are thinned out first as in word2vec (Mikolov et al. 2013): an occurrence is kept with probability
// sqrt(o.Thin/f), by a hash of its position instead of a die, so that each worker sees the same text.
func cooccur(texts [][]int32, v *vocabulary, o Options, progress Progress) *sparse {
	window := o.Window
	keep := make([]uint32, v.rows)
	for i := range keep {
		f := float64(v.counts[i]) / float64(v.total)
		keep[i] = uint32(min(1, math.Sqrt(o.Thin/f)) * math.MaxUint32)
	}
	kept := make([][]uint16, len(texts))
	parallel(len(texts), func(from, to int) {
		for t := from; t < to; t++ {
			words := make([]uint16, 0, len(texts[t]))
			for at, id := range texts[t] {
				if int(id) < v.rows && uint32(mix(uint64(t)<<20|uint64(at))) <= keep[id] {
					words = append(words, uint16(id))
				}
			}
			kept[t] = words
		}
	})
	// Row i belongs to block i % blocks, which spreads the frequent words. A block's counts are dense.
	blocks := (v.rows + 255) / 256
	m := &sparse{columns: make([][]uint16, v.rows), values: make([][]float32, v.rows)}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	sums := make([]float64, v.rows)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			counts := make([]float32, (v.rows/blocks+1)*v.rows)
			mine := make([]int32, v.rows)
			for block := int(next.Add(1)) - 1; block < blocks; block = int(next.Add(1)) - 1 {
				clear(counts)
				for i := range mine {
					mine[i] = -1
					if i%blocks == block {
						mine[i] = int32(i / blocks)
					}
				}
				for _, words := range kept {
					for at, word := range words {
						row := mine[word]
						if row < 0 {
							continue
						}
						line := counts[int(row)*v.rows : (int(row)+1)*v.rows]
						for _, other := range words[max(0, at-window):at] {
							line[other]++
						}
						for _, other := range words[at+1 : min(len(words), at+1+window)] {
							line[other]++
						}
					}
				}
				for i := block; i < v.rows; i += blocks {
					line := counts[i/blocks*v.rows : (i/blocks+1)*v.rows]
					for j, count := range line {
						sums[i] += float64(count)
						if count >= float32(o.MinPairs) {
							m.columns[i] = append(m.columns[i], uint16(j))
							m.values[i] = append(m.values[i], count)
						}
					}
				}
				mu.Lock()
				done++
				progress("count pairs", done, blocks)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var total float64
	for _, sum := range sums {
		total += sum
	}
	parallel(v.rows, func(from, to int) {
		for i := from; i < to; i++ {
			kept := 0
			for at, j := range m.columns[i] {
				pmi := math.Log(float64(m.values[i][at]) * total / (sums[i] * sums[j]))
				if pmi > 0 {
					m.columns[i][kept], m.values[i][kept] = j, float32(pmi)
					kept++
				}
			}
			m.columns[i], m.values[i] = m.columns[i][:kept:kept], m.values[i][:kept:kept]
		}
	})
	return m
}

// mix is the finisher of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
