package embed

import (
	"context"
	"math"
	"sync"

	"github.com/triskele/triskele/services/embed/tokens"
)

const (
	dimensions = 256
	// wordWeight and gramWeight are what a word adds as a whole and through all of its n-grams. The n-grams carry it
	// across inflections, compounds and typing errors; the word itself keeps look-alikes apart.
	wordWeight = 1.0
	gramWeight = 1.2
	// stopWeight is what a stop word adds, which is given no n-grams.
	stopWeight = 0.1
)

// Hashed embeds a text as the hashed counts of its words and of their n-grams of characters (Weinberger et al., "Feature
// Hashing for Large Scale Multitask Learning", 2009). It needs no model file and takes microseconds. It knows spelling,
// not meaning: texts are close that share words or parts of words. Documents and queries are embedded alike, and the
// same text gives the same vector everywhere; a change of that is a new model name.
type Hashed struct{}

var _ Embedder = Hashed{}

// NewHashed returns the embedder.
func NewHashed() Hashed { return Hashed{} }

// Model implements Embedder.
func (Hashed) Model() Model {
	return Model{Provider: "builtin", Name: "hashed-ngrams-v1", Dimensions: dimensions, Local: true}
}

// EmbedDocuments implements Embedder. Its only error is ctx's.
func (Hashed) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = embed(text)
	}
	return vectors, nil
}

// EmbedQuery implements Embedder. It has no error.
func (Hashed) EmbedQuery(_ context.Context, text string) ([]float32, error) { return embed(text), nil }

// word is one of a text's different words.
type word struct {
	hash       uint64 // of its stem
	start, end int32  // of its first occurrence in the folded text
	count      int32
}

// scratch is what embedding a text needs besides the result.
type scratch struct {
	folded []byte
	words  []word
	slots  []int32 // hash table over words; 0 is free, n is words[n-1]
	grams  []uint64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func embed(text string) []float32 {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.folded = tokens.Fold(s.folded[:0], text)
	s.split()

	var sums [dimensions]float64
	for _, w := range s.words {
		letters := s.folded[w.start:w.end]
		// There are no document frequencies to go by; longer words are rarer.
		weight := (1 + math.Log(float64(w.count))) * (0.5 + min(float64(len(letters))/8, 1))
		// Conversions keep a product and a sum from being fused on some processors, for the same vector on all.
		if tokens.StopWord(letters) {
			add(&sums, w.hash, float64(stopWeight*weight))
			continue
		}
		add(&sums, w.hash, float64(wordWeight*weight))
		s.addGrams(&sums, letters, float64(gramWeight*weight))
	}

	var squares float64
	for _, sum := range sums {
		squares += float64(sum * sum)
	}
	vector := make([]float32, dimensions)
	if squares > 0 {
		length := math.Sqrt(squares)
		for i, sum := range sums {
			vector[i] = float32(sum / length)
		}
	}
	return vector
}

// add counts a feature in the dimension its hash names, with the sign its hash gives it: the features that share a
// dimension cancel out on average instead of piling up.
func add(sums *[dimensions]float64, hash uint64, weight float64) {
	if hash>>63 == 1 {
		weight = -weight
	}
	sums[hash%dimensions] += weight
}

// split finds the different words of the folded text and counts them.
func (s *scratch) split() {
	s.words = s.words[:0]
	clear(s.slots)
	if len(s.slots) == 0 || len(s.slots) > 4096 { // not to clear a long document's table for each short text after it
		s.slots = make([]int32, 64)
	}
	for start, end := tokens.Next(s.folded, 0); start < end; start, end = tokens.Next(s.folded, end) {
		s.count(start, end)
	}
}

// count notes one occurrence of a word.
func (s *scratch) count(start, end int) {
	letters := tokens.Cut(s.folded[start:end])
	hash := tokens.HashWord(tokens.Stem(letters))
	slot := s.slot(hash)
	if n := s.slots[slot]; n > 0 {
		s.words[n-1].count++
		return
	}
	s.words = append(s.words, word{hash: hash, start: int32(start), end: int32(start + len(letters)), count: 1})
	s.slots[slot] = int32(len(s.words))
	if 2*len(s.words) > len(s.slots) {
		s.slots = make([]int32, 2*len(s.slots))
		for n, w := range s.words {
			s.slots[s.slot(w.hash)] = int32(n + 1)
		}
	}
}

// slot returns where a hash is in the table, or would be.
func (s *scratch) slot(hash uint64) int {
	mask := len(s.slots) - 1
	i := int(hash>>8) & mask
	for s.slots[i] > 0 && s.words[s.slots[i]-1].hash != hash {
		i = (i + 1) & mask
	}
	return i
}

// addGrams spreads weight over a word's n-grams so that long words do not count for more than short ones.
func (s *scratch) addGrams(sums *[dimensions]float64, letters []byte, weight float64) {
	s.grams = tokens.AppendGrams(s.grams[:0], letters)
	each := weight / math.Sqrt(float64(len(s.grams)))
	for _, gram := range s.grams {
		add(sums, gram, each)
	}
}
