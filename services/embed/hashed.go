package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/triskele/triskele/services/embed/tokens"
)

const (
	dimensions = 256
	// wordWeight is the weight of a word as a whole, gramWeight that of all its n-grams together. The n-grams match
	// inflections, compounds and typing errors. The whole word keeps apart words that are spelled similarly.
	wordWeight = 1.0
	gramWeight = 1.2
	// stopWeight is the weight of a stop word, which gets no n-grams.
	stopWeight = 0.1
)

// Hashed embeds a text as the hashed counts of its words and of their character n-grams (Weinberger et al., "Feature
// Hashing for Large Scale Multitask Learning", 2009). It needs no model file and takes microseconds. It compares spelling,
// not meaning: texts are similar if they share words or parts of words. A text has the same vector as a document and as a
// query, and on every machine. Any change of the vectors needs a new model name.
type Hashed struct {
	dimensions int // 0 means all
}

var _ Embedder = Hashed{}

// NewHashed returns the embedder with 256 dimensions.
func NewHashed() Hashed { return Hashed{} }

// NewFolded returns the embedder with fewer dimensions: a power of two from 16 to 256. Components whose indexes are equal
// modulo dims are added up, as if features had been hashed to dims dimensions. Vectors take less memory and tell texts
// apart less well.
func NewFolded(dims int) (Hashed, error) {
	if dims < 16 || dims > dimensions || dimensions%dims != 0 {
		return Hashed{}, fmt.Errorf("%d dimensions: must be 16, 32, 64, 128 or 256", dims)
	}
	return Hashed{dims % dimensions}, nil
}

// Model implements Embedder.
func (h Hashed) Model() Model {
	return Model{Provider: "builtin", Name: "hashed-ngrams-v1", Dimensions: cmp.Or(h.dimensions, dimensions), Local: true}
}

// EmbedDocuments implements Embedder. Its only error is ctx's.
func (h Hashed) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return Each(ctx, texts, h.embed)
}

// EmbedQuery implements Embedder. It never fails.
func (h Hashed) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return h.embed(text), nil
}

func (h Hashed) embed(text string) []float32 {
	vector := embed(text)
	if h.dimensions == 0 {
		return vector
	}
	folded := make([]float32, h.dimensions)
	for i, x := range vector {
		folded[i%h.dimensions] += x
	}
	Normalize(folded)
	return folded
}

// word is one distinct word of a text.
type word struct {
	hash       uint64 // of its stem
	start, end int32  // of its first occurrence in the folded text
	count      int32
}

// scratch is the memory that embedding a text needs besides the result.
type scratch struct {
	folded []byte
	words  []word
	places map[uint64]int // of words, by hash
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
		// There are no document frequencies. Longer words are rarer on average, so they weigh more.
		weight := (1 + math.Log(float64(w.count))) * (0.5 + min(float64(len(letters))/8, 1))
		// The conversions forbid fused multiply-add, so that every processor computes the same vector.
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

// add adds a feature's weight to one dimension. The hash chooses the dimension and the sign. Because of the signs, features
// that share a dimension cancel out on average.
func add(sums *[dimensions]float64, hash uint64, weight float64) {
	if hash>>63 == 1 {
		weight = -weight
	}
	sums[hash%dimensions] += weight
}

// split finds the distinct words of the folded text and counts them.
func (s *scratch) split() {
	if clear(s.places); s.places == nil || len(s.words) > 2048 { // a long document's map would be cleared for each later text
		s.places = map[uint64]int{}
	}
	s.words = s.words[:0]
	for start, end := tokens.Next(s.folded, 0); start < end; start, end = tokens.Next(s.folded, end) {
		letters := tokens.Cut(s.folded[start:end])
		hash := tokens.HashWord(tokens.Stem(letters))
		place, known := s.places[hash]
		if !known {
			place = len(s.words)
			s.places[hash] = place
			s.words = append(s.words, word{hash: hash, start: int32(start), end: int32(start + len(letters))})
		}
		s.words[place].count++
	}
}

// addGrams adds a word's n-grams, each with weight over the square root of their number: long words weigh no more than short
// ones.
func (s *scratch) addGrams(sums *[dimensions]float64, letters []byte, weight float64) {
	s.grams = tokens.AppendGrams(s.grams[:0], letters)
	each := weight / math.Sqrt(float64(len(s.grams)))
	for _, gram := range s.grams {
		add(sums, gram, each)
	}
}
