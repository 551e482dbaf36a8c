package train_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/tests/lab/train"
)

const (
	topics = 12
	each   = 10 // words of a topic
)

func word(topic, i int) string { return fmt.Sprintf("t%cw%c", 'a'+topic, 'a'+i) }

// corpus writes texts and pairs about invented topics. The two sides of a pair share a topic and no word.
func corpus(t *testing.T) string {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	words := func(topic, from, to, n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = word(topic, from+random.IntN(to-from))
		}
		return strings.Join(out, " ") + " and the"
	}
	var texts, pairs bytes.Buffer
	for i := range 2000 {
		topic := i % topics
		said := ""
		if i%100 == 0 {
			said = "Yeah, "
		}
		line(t, &texts, map[string]any{"t": said + words(topic, 0, each, 14), "s": topic % 2})
		line(t, &pairs, map[string]any{"a": words(topic, 0, 5, 3), "b": words(topic, 5, each, 6), "k": "heading-para", "s": topic % 2})
	}
	folder := t.TempDir()
	packed, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.Copy(w, &pairs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"text-0.jsonl.zst": packed.EncodeAll(texts.Bytes(), nil), "pairs-0.jsonl.gz": zipped.Bytes()} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func line(t *testing.T, out *bytes.Buffer, v any) {
	t.Helper()
	if err := json.NewEncoder(out).Encode(v); err != nil {
		t.Fatal(err)
	}
}

func options(steps int) train.Options {
	o := train.DefaultOptions()
	o.Columns, o.Batch, o.Steps, o.Thin, o.Constant = 24, 32, steps, 1, 0.5
	return o
}

func run(t *testing.T, folder string, o train.Options) []byte {
	t.Helper()
	file, err := train.Run(folder, o, func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// found is the share of topics whose answer is nearest to the question; they have no word in common.
func found(t *testing.T, file []byte) float64 {
	t.Helper()
	m, err := static.Decode(string(file))
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	for topic := range topics {
		answers = append(answers, word(topic, 6)+" "+word(topic, 8)+" the")
	}
	documents, err := m.EmbedDocuments(t.Context(), answers)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for topic := range topics {
		q, err := m.EmbedQuery(t.Context(), "and "+word(topic, 0)+" "+word(topic, 3))
		if err != nil {
			t.Fatal(err)
		}
		best, most := 0, float32(-2)
		for i, d := range documents {
			var sum float32
			for k := range q {
				sum += q[k] * d[k]
			}
			if sum > most {
				best, most = i, sum
			}
		}
		if best == topic {
			right++
		}
	}
	return float64(right) / topics
}

func TestLearnsWhatBelongsTogether(t *testing.T) {
	t.Parallel()
	file := run(t, corpus(t), options(60))
	if share := found(t, file); share < 0.9 {
		t.Errorf("%.2f of the questions find their answer, want at least 0.9", share)
	}
	random, err := train.Random(file, 1)
	if err != nil {
		t.Fatal(err)
	}
	if share := found(t, random); share > 0.6 {
		t.Errorf("with random rows %.2f of the questions find their answer: the test asks too little", share)
	}
}

// Words that fill speech stay short, though texts have few of them: a document of such a word is little more than the constant.
func TestSpokenWordsStayShort(t *testing.T) {
	t.Parallel()
	o := options(20)
	o.SIF = 1 // each row is long
	m, err := static.Decode(string(run(t, corpus(t), o)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := m.EmbedDocuments(t.Context(), []string{"yeah", word(1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	constant := func(v []float32) float32 { return v[len(v)-1] }
	if want := float32(0.5 / math.Hypot(0.5, 0.3)); constant(v[0]) < want-0.01 || constant(v[1]) > want-0.1 {
		t.Errorf("the constant is %v of a filler and %v of a word, want %v and less", constant(v[0]), constant(v[1]), want)
	}
}

// Without a single step of training, words that occur together are near already.
func TestStartsFromWhatOccursTogether(t *testing.T) {
	t.Parallel()
	o := options(0)
	o.Spelling = 0
	if share := found(t, run(t, corpus(t), o)); share < 0.9 {
		t.Errorf("%.2f of the questions find their answer, want at least 0.9", share)
	}
}

// The lower the loss, the surer the partner: training must not undo the start.
func TestTrainingAloneLearns(t *testing.T) {
	t.Parallel()
	o := options(200)
	o.MinPairs = 1 << 20 // no pair of words is frequent enough to count
	if _, err := train.Run(corpus(t), o, func(string, int, int) {}); err == nil {
		t.Error("a start from nothing is taken")
	}
}

// The same data and seed give the same file, however many processors share the work.
func TestReproducible(t *testing.T) {
	folder := corpus(t)
	processors := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(processors)
	var files [][]byte
	for _, n := range []int{1, 4, 3} {
		runtime.GOMAXPROCS(n)
		files = append(files, run(t, folder, options(20)))
	}
	if !bytes.Equal(files[0], files[1]) || !bytes.Equal(files[0], files[2]) {
		t.Error("the model depends on the number of processors")
	}
	o := options(20)
	o.Seed = 2
	if bytes.Equal(run(t, folder, o), files[0]) {
		t.Error("another seed gives the same model")
	}
	o = options(20)
	o.Repeat = 1
	if bytes.Equal(run(t, folder, o), files[0]) {
		t.Error("another weight of repeated words gives the same model")
	}
}

func TestBrokenData(t *testing.T) {
	t.Parallel()
	if _, err := train.Run(t.TempDir(), options(1), func(string, int, int) {}); err == nil {
		t.Error("an empty folder is no data")
	}
	folder := corpus(t)
	if err := os.WriteFile(filepath.Join(folder, "pairs-1.jsonl.gz"), []byte("not gzip"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := train.Run(folder, options(1), func(string, int, int) {}); err == nil || !strings.Contains(err.Error(), "pairs-1") {
		t.Errorf("a broken file: %v", err)
	}
}
