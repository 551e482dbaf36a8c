package embed

import (
	"context"
	"math"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	dimensions = 256
	// wordWeight and gramWeight are what a word adds as a whole and through all of its n-grams. The n-grams carry it
	// across inflections, compounds and typing errors; the word itself keeps look-alikes apart.
	wordWeight = 1.0
	gramWeight = 1.2
	// stopWeight is what a stop word adds, which is given no n-grams.
	stopWeight = 0.1
	// maxWord is how many bytes of a word are looked at: longer ones are data, such as keys and encoded files.
	maxWord = 64
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
	starts []int32 // of a word's characters, and its end
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func embed(text string) []float32 {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.fold(text)
	s.split()

	var sums [dimensions]float64
	for _, w := range s.words {
		letters := s.folded[w.start:w.end]
		// There are no document frequencies to go by; longer words are rarer.
		weight := (1 + math.Log(float64(w.count))) * (0.5 + min(float64(len(letters))/8, 1))
		// Conversions keep a product and a sum from being fused on some processors, for the same vector on all.
		if stopWords[string(letters)] {
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

// fold writes the text in lower case and without accents or compatibility variants.
func (s *scratch) fold(text string) {
	s.folded = s.folded[:0]
	plain := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf {
			plain = false
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		s.folded = append(s.folded, c)
	}
	if plain {
		return
	}
	// Lower case before and after, because either can bring forth what the other has to change.
	s.folded = norm.NFKD.AppendString(s.folded[:0], strings.ToLower(text))
	kept := s.folded[:0]
	for i := 0; i < len(s.folded); {
		r, size := utf8.DecodeRune(s.folded[i:])
		if r < 0x300 || r > 0x36F { // the accents of Latin, Greek and Cyrillic; other scripts' marks spell vowels
			lower := unicode.ToLower(r)
			if utf8.RuneLen(lower) > size { // must not write over what is still to be read
				lower = r
			}
			if r == utf8.RuneError {
				lower = ' '
			}
			kept = utf8.AppendRune(kept, lower)
		}
		i += size
	}
	s.folded = kept
}

// split finds the different words of the folded text and counts them.
func (s *scratch) split() {
	s.words = s.words[:0]
	clear(s.slots)
	if len(s.slots) == 0 || len(s.slots) > 4096 { // not to clear a long document's table for each short text after it
		s.slots = make([]int32, 64)
	}
	for i := 0; i < len(s.folded); {
		start := i
		for i < len(s.folded) {
			r, size := rune(s.folded[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRune(s.folded[i:])
			}
			if !inWord(r) {
				break
			}
			i += size
		}
		if i > start {
			s.count(start, i)
			continue
		}
		_, size := utf8.DecodeRune(s.folded[i:])
		i += size
	}
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// count notes one occurrence of a word.
func (s *scratch) count(start, end int) {
	if end-start > maxWord {
		end = start + maxWord
		for end > start && !utf8.RuneStart(s.folded[end]) {
			end--
		}
	}
	hash := hashBytes(wordSeed, stem(s.folded[start:end]))
	slot := s.slot(hash)
	if n := s.slots[slot]; n > 0 {
		s.words[n-1].count++
		return
	}
	s.words = append(s.words, word{hash: hash, start: int32(start), end: int32(end), count: 1})
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
	shortest, longest := 3, 5
	if first, _ := utf8.DecodeRune(letters); unspaced(first) {
		// What looks like one word is a phrase, and its words are one or two characters long.
		shortest, longest = 1, 2
	}
	var bounded [maxWord + 2]byte
	bounded[0] = '<'
	n := 1 + copy(bounded[1:], letters)
	bounded[n] = '>'
	n++
	s.starts = s.starts[:0]
	for i := range n {
		if utf8.RuneStart(bounded[i]) {
			s.starts = append(s.starts, int32(i))
		}
	}
	s.starts = append(s.starts, int32(n))

	chars := len(s.starts) - 1
	grams := 0
	for size := shortest; size <= min(longest, chars); size++ {
		grams += chars - size + 1
	}
	if grams == 0 {
		return
	}
	each := weight / math.Sqrt(float64(grams))
	for size := shortest; size <= min(longest, chars); size++ {
		for i := 0; i+size <= chars; i++ {
			add(sums, hashBytes(gramSeed, bounded[s.starts[i]:s.starts[i+size]]), each)
		}
	}
}

// unspaced says whether a character belongs to a script that is written without spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Features of different kinds start from different seeds; wordSeed is FNV-1a's own.
const (
	wordSeed uint64 = 0xcbf29ce484222325
	gramSeed uint64 = 0x9ae16a3b2f90404f
)

// hashBytes is 64-bit FNV-1a, finished as in MurmurHash3 because FNV alone mixes its low and high bits too little.
func hashBytes(seed uint64, b []byte) uint64 {
	h := seed
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
