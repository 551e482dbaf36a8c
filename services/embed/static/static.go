// Package static is the built-in embedder: it adds up one trained vector per word. It needs no download, takes
// microseconds, and knows which English words mean something alike; a word it does not know stands for its spelling. The
// model is in the program; docs/embedder says what it was made of and what it reaches, and package train makes it.
package static

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/tokens"
)

// Name is the built-in model's. One that is trained anew needs another: vectors that were stored by the one before must not
// be compared with its own.
const Name = "static-en-v2"

// Retired says whether a model was the built-in one of an earlier release, which this program does not have.
func Retired(m embed.Model) bool {
	return m.Provider == "builtin" && strings.HasPrefix(m.Name, "static-") && m.Name != Name
}

// Model is a table of word vectors. It may be used concurrently.
type Model struct {
	columns  int      // of the table; a text's vector has one component more
	unknown  float32  // length of the vector of a word without a row
	constant float32  // the last component of a document's sum
	words    string   // one after the other
	starts   []uint32 // of each word, and the end
	scales   []float32
	rows     string  // columns bytes per word, each an int8 that the word's scale is multiplied by
	slots    []int32 // hash table over words; 0 is free, n is word n-1
}

var _ embed.Embedder = (*Model)(nil)

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model {
	return embed.Model{Provider: "builtin", Name: Name, Dimensions: m.columns + 1, QueryDimensions: m.columns, Local: true}
}

// EmbedQuery implements embed.Embedder. It has no error.
func (m *Model) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return m.embed(text, 0), nil
}

// EmbedDocuments implements embed.Embedder. Its only error is ctx's.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = m.embed(text, m.constant)
	}
	return vectors, nil
}

// Repeat is how much a word counts that occurs n times in a text.
func Repeat(n int) float32 { return float32(math.Sqrt(float64(n))) }

// occurrence is a word of a text.
type occurrence struct {
	hash       uint64 // of its stem
	start, end int32  // of the stem in the folded text
}

// scratch is what embedding a text needs besides the result.
type scratch struct {
	folded []byte
	words  []occurrence
	grams  []uint64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// embed returns the sum of the vectors of a text's words with one more component, constant, scaled to length 1; the zero
// vector for a text without words.
//
// A query's constant is 0, so that component takes nothing from a dot product. A document's is part of its length only:
// the fewer and the more common a document's words, the lower all its cosines. Without it, "Hi Ann!" would be nearest
// to every question about Ann. It is what the pivot is in Singhal, Buckley and Mitra, "Pivoted Document Length
// Normalization", SIGIR 1996.
func (m *Model) embed(text string, constant float32) []float32 {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.folded = tokens.Fold(s.folded, text)
	s.words = s.words[:0]
	for start, end := tokens.Next(s.folded, 0); start < end; start, end = tokens.Next(s.folded, end) {
		stem := tokens.Stem(tokens.Cut(s.folded[start:end]))
		s.words = append(s.words, occurrence{tokens.HashWord(stem), int32(start), int32(start + len(stem))})
	}
	slices.SortFunc(s.words, func(a, b occurrence) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.start, b.start)) })

	vector := make([]float32, m.columns+1)
	if len(s.words) == 0 {
		return vector
	}
	sum := vector[:m.columns]
	for i := 0; i < len(s.words); {
		word, first := s.words[i], i
		for i < len(s.words) && s.words[i].hash == word.hash {
			i++
		}
		m.add(sum, word, Repeat(i-first), s)
	}
	vector[m.columns] = constant
	var squares float64
	for _, x := range vector {
		squares += float64(float64(x) * float64(x))
	}
	if squares > 0 {
		length := math.Sqrt(squares)
		for i := range vector {
			vector[i] = float32(float64(vector[i]) / length)
		}
	}
	return vector
}

// add adds a word's vector times weight.
func (m *Model) add(sum []float32, word occurrence, weight float32, s *scratch) {
	stem := s.folded[word.start:word.end]
	_, row := m.find(stem, word.hash)
	if row < 0 {
		s.grams = Spell(sum, stem, float32(weight*m.unknown), s.grams)
		return
	}
	weight *= m.scales[row]
	values := m.rows[row*m.columns : (row+1)*m.columns]
	for i := range sum {
		// The conversion keeps product and sum from being fused on some processors, for the same vector on all.
		sum[i] += float32(weight * float32(int8(values[i])))
	}
}

// find returns a word's slot in the hash table, or the one it would get, and its row, -1 if it has none.
func (m *Model) find(word []byte, hash uint64) (slot, row int) {
	mask := len(m.slots) - 1
	for slot = int(hash) & mask; m.slots[slot] > 0; slot = (slot + 1) & mask {
		row = int(m.slots[slot]) - 1
		if m.words[m.starts[row]:m.starts[row+1]] == string(word) {
			return slot, row
		}
	}
	return slot, -1
}
