package transformer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/triskele/triskele/fuser/transformer"
	"github.com/triskele/triskele/fuser/transformer/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t testing.TB, folder string) *transformer.Model {
	t.Helper()
	m, err := transformer.Load(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// states returns the hidden states of sequences.
func states(t testing.TB, m *transformer.Model, sequences ...transformer.Sequence) [][]float32 {
	t.Helper()
	var all [][]float32
	err := m.Hidden(t.Context(), sequences, func(i int, states []float32) {
		if i != len(all) {
			t.Errorf("sequence %d comes after %d others", i, len(all))
		}
		all = append(all, slices.Clone(states))
	})
	if err != nil || len(all) != len(sequences) {
		t.Fatalf("%d of %d sequences have states: %v", len(all), len(sequences), err)
	}
	return all
}

// near reports whether numbers differ by less than 1e-4.
func near[X, Y float32 | float64](got []X, want []Y) bool { return within(1e-4, got, want) }

// within reports whether numbers differ by less than most.
func within[X, Y float32 | float64](most float64, got []X, want []Y) bool {
	return slices.EqualFunc(got, want, func(a X, b Y) bool { return math.Abs(float64(a)-float64(b)) < most })
}

// TestOracle compares with what PyTorch computed.
func TestOracle(t *testing.T) {
	t.Parallel()
	folder := modeltest.Tiny(t)
	text, err := os.ReadFile(filepath.Join(folder, "oracle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Texts []struct {
			Text   string
			IDs    []int
			States []float32
		}
		Pairs []struct {
			Query, Text string
			Limit       int
			Score       float64
		}
	}
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	m := load(t, folder)
	var sequences []transformer.Sequence
	for _, c := range oracle.Texts {
		ids := m.Tokens(c.Text, 0)
		if !slices.Equal(ids, c.IDs) {
			t.Errorf("%q has the tokens %v, want %v", c.Text, ids, c.IDs)
		}
		sequences = append(sequences, transformer.Sequence{IDs: ids})
	}
	for i, got := range states(t, m, sequences...) {
		if !near(got, oracle.Texts[i].States) {
			t.Errorf("%q has the states\n%v, want\n%v", oracle.Texts[i].Text, got, oracle.Texts[i].States)
		}
	}
	for _, c := range oracle.Pairs {
		got, err := m.Score(t.Context(), c.Query, []string{c.Text}, c.Limit)
		if err != nil || !near(got, []float64{c.Score}) {
			t.Errorf("%q and %q, cut to %d tokens, have the score %v, %v, want %v", c.Query, c.Text, c.Limit, got, err, c.Score)
		}
	}
	if len(oracle.Texts) == 0 || len(oracle.Pairs) == 0 {
		t.Error("the oracle says nothing")
	}
}

// special are the first tokens of the models below.
var special = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "sea"}

// contents returns the files of a model.
func contents(shape modeltest.Shape, tensors map[string]modeltest.Tensor, kind string) map[string]any {
	return map[string]any{
		"config.json": shape.Config(), "vocab.txt": modeltest.Vocabulary(shape.Words, special...), "model.safetensors": modeltest.Safetensors(tensors, kind),
	}
}

// TestShapes compares models of odd shapes and each type of numbers with plain loops, also for sequences of several groups.
func TestShapes(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		shape modeltest.Shape
		kind  string
		relu  bool
	}{
		{modeltest.Shape{Words: 7, Hidden: 1, Layers: 1, Heads: 1, Intermediate: 1, Positions: 3, Segments: 2, Labels: 1}, "F32", false},
		{modeltest.Shape{Words: 50, Hidden: 15, Layers: 3, Heads: 5, Intermediate: 17, Positions: 70, Segments: 2, Labels: 1}, "F16", false},
		{modeltest.Shape{Words: 50, Hidden: 64, Layers: 2, Heads: 2, Intermediate: 96, Positions: 200, Segments: 3, Labels: 1}, "BF16", true},
		{modeltest.Shape{Words: 20, Hidden: 34, Layers: 2, Heads: 2, Intermediate: 33, Positions: 600, Segments: 2, Labels: 1}, "F32", false},
		{modeltest.Shape{Words: 30, Hidden: 36, Layers: 2, Heads: 3, Intermediate: 33, Positions: 90, Segments: 2, Labels: 1}, "I8", true}, // outputs of an odd number of panels stay floats
		{modeltest.Shape{Words: 50, Hidden: 64, Layers: 2, Heads: 2, Intermediate: 33, Positions: 200, Segments: 2, Labels: 1}, "I8", false},
	} {
		t.Run(fmt.Sprint(c.shape), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(i), 1))
			tensors := c.shape.Tensors()
			modeltest.Random(tensors, r)
			want, named := reference{c.shape, tensors, c.relu}, tensors
			if i%2 == 1 { // the names of a model with a head
				named = map[string]modeltest.Tensor{}
				for name, tensor := range tensors {
					if !strings.HasPrefix(name, "classifier") {
						name = "bert." + name
					}
					named[name] = tensor
				}
			}
			files, config := contents(c.shape, named, c.kind), c.shape.Config()
			if c.relu {
				config["hidden_act"] = "relu"
			}
			files["config.json"] = config
			m := load(t, modeltest.Write(t, files))
			most := 1e-4
			if c.kind == "I8" && c.shape.Hidden == 64 {
				most = 0.15 // states that bytes multiply become bytes, too
			}
			if m.Dimensions() != c.shape.Hidden || m.Positions() != c.shape.Positions {
				t.Errorf("%d dimensions and %d positions, want %v", m.Dimensions(), m.Positions(), c.shape)
			}
			var sequences []transformer.Sequence
			for _, n := range []int{c.shape.Positions, 1, 2, 3, c.shape.Positions/2 + 1, c.shape.Positions - 1, 1} {
				s := transformer.Sequence{IDs: make([]int, n), Second: r.IntN(n + 1)}
				for k := range s.IDs {
					s.IDs[k] = r.IntN(c.shape.Words)
				}
				sequences = append(sequences, s)
			}
			for k, got := range states(t, m, sequences...) {
				s := sequences[k]
				if flat := slices.Concat(want.hidden(s.IDs, s.Second)...); !within(most, got, flat) {
					t.Errorf("%d tokens: %v, want %v", len(s.IDs), got, flat)
				}
			}
			got, err := m.Score(t.Context(), "", []string{"sea"}, 0)
			ids, second := []int{2, 3, 4, 3}, 2
			if c.shape.Positions == 3 {
				ids, second = []int{2, 3, 3}, 1
			}
			if err != nil || !within(most, got, []float64{want.score(ids, second)}) {
				t.Errorf("the score is %v, %v, want %v", got, err, want.score(ids, second))
			}
		})
	}
}

// A row's numbers are the same to the bit whatever else is computed, by this call and others.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	bytes := modeltest.Shape{Words: 9, Hidden: 64, Layers: 2, Heads: 2, Intermediate: 96, Positions: 90, Segments: 2, Labels: 1}
	tensors := bytes.Tensors()
	modeltest.Random(tensors, rand.New(rand.NewPCG(5, 1)))
	for name, folder := range map[string]string{"floats": modeltest.Tiny(t), "bytes": modeltest.Write(t, contents(bytes, tensors, "I8"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testConcurrently(t, load(t, folder))
		})
	}
}

func testConcurrently(t *testing.T, m *transformer.Model) {
	texts := []string{"", "sea", "harbour sea", strings.Repeat("the sea. ", 12)}
	alone := map[string][]float32{}
	for _, text := range texts {
		alone[text] = states(t, m, transformer.Sequence{IDs: m.Tokens(text, 0)})[0]
	}
	scores, err := m.Score(t.Context(), "sea", texts, 0)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			var sequences []transformer.Sequence
			var read []string
			for range 60 {
				text := texts[r.IntN(len(texts))]
				read, sequences = append(read, text), append(sequences, transformer.Sequence{IDs: m.Tokens(text, 0)})
			}
			err := m.Hidden(t.Context(), sequences, func(i int, states []float32) {
				if !slices.Equal(states, alone[read[i]]) {
					t.Errorf("text %d, %q, has other states among others", i, read[i])
				}
			})
			again, scored := m.Score(t.Context(), "sea", texts, 0)
			if err != nil || scored != nil || !slices.Equal(again, scores) {
				t.Errorf("scores are %v, want %v; %v, %v", again, scores, err, scored)
			}
		})
	}
	group.Wait()
}

func TestTokens(t *testing.T) {
	t.Parallel()
	m := load(t, modeltest.Tiny(t))
	for limit, want := range map[int]int{-1: 40, 0: 40, 2: 40, 3: 3, 4: 4, 40: 40, 41: 40} {
		ids := m.Tokens(strings.Repeat("sea ", 100), limit)
		if len(ids) != want || ids[0] != 2 || ids[len(ids)-1] != 3 {
			t.Errorf("limit %d: %v, want %d tokens", limit, ids, want)
		}
	}
}

// ending is a context that ends after some looks at it.
type ending struct {
	context.Context
	looks atomic.Int64
}

func endAfter(ctx context.Context, looks int64) *ending {
	e := &ending{Context: ctx}
	e.looks.Store(looks)
	return e
}

func (e *ending) Err() error {
	if e.looks.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestEnd ends calls before tasks, of which each step of a layer has some.
func TestEnd(t *testing.T) {
	t.Parallel()
	m := load(t, modeltest.Tiny(t))
	long := transformer.Sequence{IDs: m.Tokens(strings.Repeat("sea ", 100), 0)}
	sequences := slices.Repeat([]transformer.Sequence{long}, 24) // two groups
	ends := map[int]bool{}
	for looks := int64(0); !ends[len(sequences)]; looks += 17 {
		count := 0
		ctx := endAfter(t.Context(), looks)
		err := m.Hidden(ctx, sequences, func(int, []float32) { count++ })
		if ends[count] = true; err == nil && count != len(sequences) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d looks: %d sequences, %v", looks, count, err)
		}
		if late := -ctx.looks.Load(); late > int64(runtime.GOMAXPROCS(0)) {
			t.Fatalf("after %d looks: %d more, want one by each processor at most", looks, late)
		}
	}
	if want := map[int]bool{0: true, 12: true, 24: true}; !maps.Equal(ends, want) {
		t.Errorf("calls end after %v sequences, want %v", ends, want)
	}
	for looks := range int64(4) {
		if _, err := m.Score(endAfter(t.Context(), looks), "sea", []string{"sea", "the"}, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a score after %d looks: %v", looks, err)
		}
	}
	if scores, err := m.Score(t.Context(), "sea", nil, 0); err != nil || len(scores) != 0 {
		t.Errorf("no texts: %v, %v", scores, err)
	}
}

// with returns a map after a change.
func with(all map[string]any, key string, value any) map[string]any {
	all = maps.Clone(all)
	all[key] = value
	return all
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	shape := modeltest.Shape{Words: 5, Hidden: 4, Layers: 1, Heads: 2, Intermediate: 4, Positions: 8, Segments: 2, Labels: 1}
	good := contents(shape, shape.Tensors(), "F32")
	type refusal struct {
		files map[string]any
		says  string
	}
	refusals := map[string]refusal{
		"no configuration":         {with(good, "config.json", nil), "has no config.json"},
		"a configuration not JSON": {with(good, "config.json", []byte("[")), "config.json"},
		"no weights":               {with(good, "model.safetensors", nil), "save_pretrained"},
		"weights cut":              {with(good, "model.safetensors", []byte("1234567")), "model.safetensors: the file is too short"},
		"weights without header":   {with(good, "model.safetensors", []byte("12345678")), "header"},
		"no tokeniser":             {with(good, "vocab.txt", nil), "neither tokenizer.json nor vocab.txt"},
		"a tokeniser of BPE":       {with(good, "tokenizer.json", map[string]any{"model": map[string]any{"type": "BPE"}}), "WordPiece"},
		"no [SEP]":                 {with(good, "vocab.txt", []byte("[UNK]\n[CLS]\nsea")), "[SEP]"},
		"more tokens":              {with(good, "vocab.txt", modeltest.Vocabulary(6, special...)), "the tokenizer has 6"},
		"integers":                 {with(good, "model.safetensors", []byte(strings.ReplaceAll(string(good["model.safetensors"].([]byte)), "F32", "I32"))), "must be F32, F16, BF16 or I8"},
		"bytes without scales":     {with(good, "model.safetensors", []byte(strings.ReplaceAll(string(good["model.safetensors"].([]byte)), `"F32"`, `"I8" `))), ".scale is missing"},
	}
	for field, values := range map[string][]any{
		"model_type": {nil, "roberta"}, "hidden_size": {0, nil, 5, "x"}, "num_hidden_layers": {0, 2}, "num_attention_heads": {0, 3}, "intermediate_size": {0, 5, 1 << 62},
		"max_position_embeddings": {2, 9}, "type_vocab_size": {0, 3}, "layer_norm_eps": {nil, 0}, "hidden_act": {"gelu_new"}, "position_embedding_type": {"relative_key"},
		"is_decoder": {true},
	} {
		for _, value := range values {
			says := field
			switch value {
			case 5, 2, 9, 3:
				if field != "num_attention_heads" && (field != "max_position_embeddings" || value != 2) {
					says = "tensor"
				}
			}
			if field == "hidden_size" && value == 5 {
				says = "must divide hidden_size"
			}
			refusals[fmt.Sprintf("%s %v", field, value)] = refusal{with(good, "config.json", with(shape.Config(), field, value)), says}
		}
	}
	for name := range shape.Tensors() {
		tensors := shape.Tensors()
		delete(tensors, name)
		if !strings.HasPrefix(name, "pooler.dense.weight") && name != "classifier.weight" {
			refusals["no "+name] = refusal{contents(shape, tensors, "F32"), name + " is missing"}
		}
	}
	huge := modeltest.Shape{Words: 5, Hidden: 1 << 20, Heads: 1 << 20, Intermediate: 1, Positions: 3, Segments: 1} // without layers
	files := contents(huge, huge.Tensors(), "F16")
	refusals["embeddings of a huge model"] = refusal{with(files, "config.json", with(huge.Config(), "num_hidden_layers", 1)), "query.weight is missing"}
	load(t, modeltest.Write(t, good))
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := transformer.Load(os.DirFS(modeltest.Write(t, c.files))); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want %q in it", err, c.says)
			}
		})
	}
}

// A model that is no cross-encoder says why it does not score.
func TestCanScore(t *testing.T) {
	t.Parallel()
	for labels, says := range map[int]string{0: "lacks pooler.dense or classifier", 1: "", 2: "one label"} {
		shape := modeltest.Shape{Words: 5, Hidden: 4, Layers: 1, Heads: 2, Intermediate: 4, Positions: 8, Segments: 2, Labels: labels}
		m := load(t, modeltest.Write(t, contents(shape, shape.Tensors(), "F32")))
		_, err := m.Score(t.Context(), "sea", []string{"sea"}, 0)
		if !errors.Is(err, m.CanScore()) || (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d labels: %v, %v", labels, m.CanScore(), err)
		}
	}
	shape := modeltest.Shape{Words: 5, Hidden: 4, Layers: 1, Heads: 2, Intermediate: 4, Positions: 8, Segments: 1, Labels: 1}
	m := load(t, modeltest.Write(t, contents(shape, shape.Tensors(), "F32")))
	if err := m.CanScore(); err == nil || !strings.Contains(err.Error(), "type_vocab_size") {
		t.Errorf("one segment: %v", err)
	}
	tensors := modeltest.Shape{Words: 5, Hidden: 4, Layers: 1, Heads: 2, Intermediate: 4, Positions: 8, Segments: 2, Labels: 1}.Tensors()
	tensors["classifier.bias"].Data[0] = float32(math.NaN())
	shape.Segments = 2
	if scores, err := load(t, modeltest.Write(t, contents(shape, tensors, "F32"))).Score(t.Context(), "", []string{""}, 0); err == nil {
		t.Errorf("a broken model scores %v", scores)
	}
}

// miniLM is a model of the size of all-MiniLM-L6-v2 and ms-marco-MiniLM-L6-v2.
func miniLM(b *testing.B) *transformer.Model {
	shape := modeltest.Shape{Words: 1000, Hidden: 384, Layers: 6, Heads: 12, Intermediate: 1536, Positions: 512, Segments: 2, Labels: 1}
	tensors := shape.Tensors()
	modeltest.Random(tensors, rand.New(rand.NewPCG(1, 2)))
	return load(b, modeltest.Write(b, contents(shape, tensors, "F32")))
}

// BenchmarkHidden has a query, documents as a batch, and the longest text. -cpu tells how many processors to use.
func BenchmarkHidden(b *testing.B) {
	m := miniLM(b)
	for _, c := range []struct{ sequences, tokens int }{{1, 6}, {1, 12}, {1, 24}, {30, 37}, {1, 512}} {
		b.Run(fmt.Sprintf("sequences=%d/tokens=%d", c.sequences, c.tokens), func(b *testing.B) {
			ids := m.Tokens(strings.Repeat("sea ", c.tokens-2), 0)
			sequences := slices.Repeat([]transformer.Sequence{{IDs: ids}}, c.sequences)
			for b.Loop() {
				if err := m.Hidden(b.Context(), sequences, func(int, []float32) {}); err != nil {
					b.Fatal(err)
				}
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(c.sequences)/each, "sequences/s")
			b.ReportMetric(float64(c.sequences*c.tokens)*2*6*12*384*384/each/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkScore has 30 pairs of 50 tokens.
func BenchmarkScore(b *testing.B) {
	m := miniLM(b)
	query, texts := strings.Repeat("sea ", 10), slices.Repeat([]string{strings.Repeat("sea ", 37)}, 30)
	for b.Loop() {
		if _, err := m.Score(b.Context(), query, texts, 0); err != nil {
			b.Fatal(err)
		}
	}
}
