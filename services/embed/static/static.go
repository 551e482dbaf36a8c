// Package static is the built-in embedder. It needs no download and takes microseconds. Its model is part of the program:
// a table with one trained vector for each of some 20,000 English words, so that words of similar meaning have similar
// vectors. A text is embedded in these steps:
//
//  1. Package tokens splits the text into words and reduces them to stems.
//  2. Each distinct word adds its row of the table times a root of its count (repeated).
//  3. A word without a row adds a vector made from its spelling (Spell).
//  4. Documents get a constant last component, which lowers the cosines of short and common texts (see embed).
//  5. The sum is scaled to length 1.
//
// docs/embedder describes the training data and the measured quality. The lab of the tests module trains the model.
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

// Name is the name of the built-in model. A model that is trained anew needs a new name: its vectors cannot be compared
// with stored vectors of the old one.
const Name = "static-en-v3"

const provider = "builtin"

// Retired reports whether a model is the built-in one of an earlier release, which this program lacks.
func Retired(m embed.Model) bool {
	return m.Provider == provider && strings.HasPrefix(m.Name, "static-") && m.Name != Name
}

// Succeeds reports whether a model is the built-in one, and the other the built-in one of an earlier release.
func Succeeds(m, other embed.Model) bool {
	return m.Provider == provider && m.Name == Name && Retired(other)
}

// Model is a table of word vectors. It may be used concurrently.
type Model struct {
	columns  int      // of the table; a text's vector has one component more
	unknown  float32  // length of the vector of a word without a row
	constant float32  // the last component of a document's sum
	words    []string // by row
	row      map[string]int32
	scales   []float32 // by row
	rows     string    // columns int8 for each word; times the scale they are the components
}

var _ embed.Embedder = (*Model)(nil)

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model {
	return embed.Model{Provider: provider, Name: Name, Dimensions: m.columns + 1, QueryDimensions: m.columns, Local: true}
}

// Immediate says that documents take microseconds: see embed.Immediate.
func (*Model) Immediate() bool { return true }

// EmbedQuery implements embed.Embedder. It never fails.
func (m *Model) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return m.embed(text, 0), nil
}

// EmbedDocuments implements embed.Embedder. Its only error is ctx's.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return embed.Each(ctx, texts, func(text string) []float32 { return m.embed(text, m.constant) })
}

// repeated returns the weight of a word that occurs n times in a text of some words: √n in a short one. A page repeats what it is about, and
// a remark repeats by the way. So the weight of a long text's words is half-way between √n and n^(3/4).
func repeated(n, words int) float32 {
	const short, long = 20, 120
	root := math.Sqrt(float64(n))
	length := min(max(float64(words-short), 0), long-short) / (long - short)
	return float32(root + float64(length/2*float64(root*math.Sqrt(root)-root)))
}

// occurrence is one occurrence of a word in a text.
type occurrence struct {
	hash       uint64 // of its stem
	start, end int32  // of the stem in the folded text
}

// scratch is the memory that embedding a text needs besides the result.
type scratch struct {
	folded []byte
	words  []occurrence
	grams  []uint64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// embed returns the sum of the vectors of a text's words, with constant as one more component, scaled to length 1. A text
// without words has the zero vector.
//
// The constant of queries is 0, so the component adds nothing to a dot product. It only adds to a document's length: a
// document of few or common words has a short sum, and its cosines become lower. Without it, "Hi Ann!" would be nearest to
// every question about Ann. The idea is the pivot of Singhal, Buckley and Mitra, "Pivoted Document Length Normalization",
// SIGIR 1996.
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
		m.add(sum, word, repeated(i-first, len(s.words)), s)
	}
	vector[m.columns] = constant
	embed.Normalize(vector)
	return vector
}

// add adds a word's vector times weight.
func (m *Model) add(sum []float32, word occurrence, weight float32, s *scratch) {
	stem := s.folded[word.start:word.end]
	at, known := m.row[string(stem)]
	if !known {
		s.grams = Spell(sum, stem, float32(weight*m.unknown), s.grams)
		return
	}
	weight *= m.scales[at]
	values := m.rows[int(at)*m.columns:][:m.columns]
	for i := range sum {
		// The conversion forbids fused multiply-add, so that every processor computes the same vector.
		sum[i] += float32(weight * float32(int8(values[i])))
	}
}
