// Package train makes the static embedder's model from text, from scratch and without a GPU: it counts which words occur
// together, factors the counts into a first vector per word, and then changes the vectors so that texts that belong
// together come to lie together. The same data, options and seed give the same model, on any number of processors.
package train

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Options are what may be tuned. Start from DefaultOptions.
type Options struct {
	Seed    uint64
	Rows    int // words with a row of their own, at most
	Columns int

	Window   int     // words on each side that count as together
	MinPairs int     // how often two words must occur together to count
	Thin     float64 // words with a larger share of the text are thinned out before counting
	Power    float64 // of the eigenvalues
	Sweeps   int     // of the subspace iteration

	SIF      float64 // a of the first weights, a/(a+p) for a word with the share p of the text
	Unknown  float64 // length of the vector of a word without a row
	Spelling float64 // length of the part of a first row that says how its word is spelled; the other part has length 1
	Spoken   float64 // length of the row of a word that people say often and write seldom, at most
	Constant float64 // of documents, see static.Model

	Steps       int
	Batch       int
	Temperature float64
	Repeat      float64            // a word that occurs n times in a side counts n to this power
	Rate        float64            // Adagrad's
	OneSource   float64            // share of a batch from one source
	SourcePower float64            // sources are drawn in proportion to this power of their sizes
	Alone       float64            // share of a batch that is made of single texts
	Shared      float64            // share of a span's words that stay in the rest of its text
	Kinds       map[string]float64 // weights of pairs by kind; 1 if not named
	TextWords   int                // words of a text that are used
}

// DefaultOptions are those of the model in package static. docs/embedder says how they were chosen.
func DefaultOptions() Options {
	return Options{
		Seed: 1, Rows: 20200, Columns: 383,
		Window: 20, MinPairs: 2, Thin: 1e-4, Power: 0.25, Sweeps: 3,
		SIF: 3e-5, Unknown: 1.5, Spelling: 0.75, Spoken: 0.3, Constant: 5,
		Steps: 1200, Batch: 512, Temperature: 0.03, Repeat: 0.75, Rate: 0.01,
		OneSource: 0.6, SourcePower: 1, Alone: 0.2, Shared: 0.1, TextWords: 160,
		Kinds: map[string]float64{"question-answer": 3, "rule-question": 0, "paraphrase": 3, "dialog-reply": 3, "same-intent": 0.3, "wn-hypernym": 0.5},
	}
}

// Progress is told how far a stage of the work is: done of total steps.
type Progress func(stage string, done, total int)

// Run reads text-*.jsonl.zst and pairs-*.jsonl.gz of a folder and returns the file of the model made of them.
func Run(folder string, options Options, progress Progress) ([]byte, error) {
	d, err := read(folder, options, progress)
	if err != nil {
		return nil, err
	}
	start, err := d.start(options, progress)
	if err != nil {
		return nil, err
	}
	return d.train(options, start, progress), nil
}

// data is a training set, encoded.
type data struct {
	vocabulary *vocabulary
	texts      [][]int32
	pairs      []textPair
	a, b       [][]int32 // sides of the pairs
}

func read(folder string, options Options, progress Progress) (*data, error) {
	texts, err := readLines[paragraph](folder, "text-*.jsonl.zst", progress)
	if err != nil {
		return nil, err
	}
	pairs, err := readLines[textPair](folder, "pairs-*.jsonl.gz", progress)
	if err != nil {
		return nil, err
	}
	const steps = 3
	progress("count words", 0, steps)
	n := len(texts)
	d := &data{pairs: pairs}
	d.vocabulary = newVocabulary(n+2*len(pairs), func(i int) string {
		switch {
		case i < n:
			return texts[i].Text
		case i < n+len(pairs):
			return pairs[i-n].A
		}
		return pairs[i-n-len(pairs)].B
	}, options.Rows)
	if d.vocabulary.rows <= options.Columns {
		return nil, fmt.Errorf("the texts have %d different words, too few for %d columns", d.vocabulary.rows, options.Columns)
	}
	progress("count words", 1, steps)
	d.texts = d.vocabulary.encode(n, func(i int) string { return texts[i].Text }, 1<<20)
	progress("count words", 2, steps)
	d.a = d.vocabulary.encode(len(pairs), func(i int) string { return pairs[i].A }, options.TextWords)
	d.b = d.vocabulary.encode(len(pairs), func(i int) string { return pairs[i].B }, options.TextWords)
	progress("count words", steps, steps)
	return d, nil
}

// start returns the first vectors, of length 1, one per row.
func (d *data) start(options Options, progress Progress) ([][]float32, error) {
	m := cooccur(d.texts, d.vocabulary, options, progress)
	return factor(m, options, rand.New(rand.NewPCG(options.Seed, 1)), progress)
}

func (d *data) train(options Options, start [][]float32, progress Progress) []byte {
	v := d.vocabulary
	t := newTable(v, options, start)
	s := newSampler(options, d, rand.New(rand.NewPCG(options.Seed, 2)))
	c := newContrast(t, options)
	for step := range options.Steps {
		progress("train", step, options.Steps)
		a, b := s.batch()
		c.step(a, b)
	}
	progress("train", options.Steps, options.Steps)
	rows := make([][]float32, v.rows)
	for i := range rows {
		rows[i] = t.vector(int32(i))
	}
	stems(nil, spoken, func(stem []byte) {
		if at, known := v.ids[string(stem)]; known && int(at) < v.rows {
			shorten(rows[at], options.Spoken)
		}
	})
	return Encode(v.words[:v.rows], rows, float32(options.Unknown), float32(options.Constant))
}

// spoken are words that fill speech and are rare in what the training reads. It would take them for words that tell texts apart.
const spoken = `ah alright aw bye course gonna gotta guess guy haha hello hey hi hm hmm huh just kinda know lol mean mm no nope oh ok okay ooh please really so sorta
	stuff sure thanks uh um umm wanna well whoa wow yeah yep yes yup`

// shorten scales a vector to a length, if it is longer.
func shorten(vector []float32, length float64) {
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	for i := range vector {
		vector[i] *= float32(min(1, length/math.Sqrt(squares)))
	}
}
