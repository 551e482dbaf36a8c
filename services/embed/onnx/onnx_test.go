//go:build onnx

package onnx_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/onnx"
)

// library is ONNX Runtime's: `make test-onnx` fetches it.
var library = flag.String("library", "", "path of ONNX Runtime's shared library")

// tokens have the ids 0 and up.
var tokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sea", "har", "##bour", "!", "query", ":"}

// words gives token i the i-th direction, so that a vector shows which tokens it was made of; padding would show most.
func words() []byte {
	table := make([]float32, len(tokens)*len(tokens))
	for i := range tokens {
		table[i*len(tokens)+i] = 1
	}
	table[0] = 1000
	return tensor("words", float32s, floats(table...), int64(len(tokens)), int64(len(tokens)))
}

// bag looks up a vector for each token, and adds one for its type: nothing for 0, too much to be missed for 1.
func bag() graph {
	types := make([]float32, 2*len(tokens))
	for i := range tokens {
		types[len(tokens)+i] = 1000
	}
	return graph{
		nodes: [][]byte{
			node("Gather", []string{"words", "input_ids"}, []string{"word"}),
			node("Gather", []string{"types", "token_type_ids"}, []string{"type"}),
			node("Add", []string{"word", "type"}, []string{"last_hidden_state"}),
		},
		tensors: [][]byte{words(), tensor("types", float32s, floats(types...), 2, int64(len(tokens)))},
		inputs: [][]byte{
			value("input_ids", int64s, "texts", "tokens"), value("attention_mask", int64s, "texts", "tokens"), value("token_type_ids", int64s, "texts", "tokens"),
		},
		outputs: [][]byte{value("last_hidden_state", float32s, "texts", "tokens", "width")},
	}
}

// files of a folder by their names.
type files map[string]any

// with returns the files of a complete folder after a change; nil takes a file away.
func with(change files) files {
	all := files{"model.onnx": bag().model(), "vocab.txt": []byte(strings.Join(tokens, "\n") + "\n")}
	maps.Copy(all, change)
	return all
}

func folder(t *testing.T, all files) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "little")
	for name, content := range all {
		if content == nil {
			continue
		}
		data, raw := content.([]byte)
		if !raw {
			var err error
			if data, err = json.Marshal(content); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, all files) embed.Embedder {
	t.Helper()
	m, err := onnx.Load(folder(t, all), onnx.Options{Library: *library})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func query(t *testing.T, m embed.Embedder, text string) []float32 {
	t.Helper()
	v, err := m.EmbedQuery(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// made is the vector of length 1 of a text that has these tokens.
func made(of ...string) []float32 {
	v := make([]float32, len(tokens))
	for _, token := range of {
		v[slices.Index(tokens, token)]++
	}
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(squares))
	}
	return v
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-6 })
}

func TestMean(t *testing.T) {
	t.Parallel()
	m := load(t, with(nil))
	texts := map[string][]float32{
		"Harbour sea, SEA!": made("[CLS]", "har", "##bour", "sea", "[UNK]", "sea", "!", "[SEP]"),
		"sea":               made("[CLS]", "sea", "[SEP]"),
		"":                  made("[CLS]", "[SEP]"),
	}
	for text, want := range texts {
		if got := query(t, m, text); !near(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	// More than one batch, of texts that have to be padded, by several callers at a time.
	var documents []string
	for range 30 {
		documents = slices.AppendSeq(documents, maps.Keys(texts))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			vectors, err := m.EmbedDocuments(t.Context(), documents)
			if err != nil {
				t.Error(err)
				return
			}
			for i, text := range documents {
				if !near(vectors[i], texts[text]) {
					t.Errorf("document %d, %q: %v, want %v", i, text, vectors[i], texts[text])
				}
			}
		})
	}
	wg.Wait()
	if vectors, err := m.EmbedDocuments(t.Context(), nil); err != nil || len(vectors) != 0 {
		t.Errorf("no texts: %v, %v", vectors, err)
	}
}

// Each way to write down what sentence-transformers does is heeded.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	lower, sea := false, made("[CLS]", "sea", "[SEP]")
	ids := map[string]int{}
	for id, token := range tokens {
		ids[token] = id
	}
	for name, c := range map[string]struct {
		change files
		text   string
		want   []float32
	}{
		"no configuration":     {nil, "sea", sea},
		"the first token":      {files{"1_Pooling/config.json": files{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}}, "sea", made("[CLS]")},
		"the first token, new": {files{"1_Pooling/config.json": files{"pooling_mode": "cls"}}, "sea", made("[CLS]")},
		"the mean":             {files{"1_Pooling/config.json": files{"pooling_mode_mean_tokens": true}}, "sea", sea},
		"another place": {files{
			"modules.json": []files{{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "pool", "type": "sentence_transformers.models.Pooling"},
				{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}},
			"pool/config.json": files{"pooling_mode_cls_token": true},
		}, "sea", made("[CLS]")},
		"a limit":           {files{"sentence_bert_config.json": files{"max_seq_length": 4}}, "sea ! har", made("[CLS]", "sea", "!", "[SEP]")},
		"a limit of BERT's": {files{"config.json": files{"max_position_embeddings": 3}}, "sea ! har", made("[CLS]", "sea", "[SEP]")},
		"cased":             {files{"tokenizer_config.json": files{"do_lower_case": lower}}, "SEA", made("[CLS]", "[UNK]", "[SEP]")},
		"the model in onnx": {files{"model.onnx": nil, "onnx/model.onnx": bag().model()}, "sea", sea},
		"tokenizer.json": {files{"vocab.txt": nil, "tokenizer.json": files{
			"normalizer":    files{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
			"pre_tokenizer": files{"type": "BertPreTokenizer"},
			"model":         files{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids},
		}}, "SEA", sea},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := query(t, load(t, with(c.change)), c.text); !near(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A model that gives a vector per text is believed.
func TestSentenceEmbedding(t *testing.T) {
	t.Parallel()
	g := bag()
	g.nodes = append(g.nodes, node("ReduceMax", []string{"last_hidden_state"}, []string{"sentence_embedding"}, integers("axes", 1), integer("keepdims", 0)))
	g.outputs = append(g.outputs, value("sentence_embedding", float32s, "texts", "width"))
	if got, want := query(t, load(t, with(files{"model.onnx": g.model()})), "sea sea"), made("[CLS]", "sea", "[SEP]"); !near(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	prompts := files{"config_sentence_transformers.json": files{"prompts": files{"query": "query: ", "passage": "passage: "}}}
	plain, prompted := load(t, with(nil)).Model(), load(t, with(prompts)).Model()
	if plain.Provider != "onnx" || !strings.HasPrefix(plain.Name, "little@") || plain.Dimensions != len(tokens) || !plain.Local || plain.QueryPrefix != "" {
		t.Errorf("%+v", plain)
	}
	if prompted.QueryPrefix != "query: " || prompted.DocumentPrefix != "passage: " || prompted.Name != plain.Name {
		t.Errorf("with prompts: %+v", prompted)
	}
	other := load(t, with(files{"config_sentence_transformers.json": files{"prompts": files{"any": "text: "}, "default_prompt_name": "any"}})).Model()
	if other.QueryPrefix != "text: " || other.DocumentPrefix != "text: " {
		t.Errorf("with a prompt for all: %+v", other)
	}
	prefix, none := "ask: ", ""
	m, err := onnx.Load(folder(t, with(prompts)), onnx.Options{Library: *library, QueryPrefix: &prefix, DocumentPrefix: &none})
	if err != nil || m.Model().QueryPrefix != prefix || m.Model().DocumentPrefix != none {
		t.Errorf("with prefixes given: %v", err)
	}
	if pooled := load(t, with(files{"1_Pooling/config.json": files{"pooling_mode": "cls"}})).Model(); pooled.Name == plain.Name {
		t.Errorf("models that pool in different ways share the name %s", pooled.Name)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	stranger, halves, whole := bag(), bag(), bag()
	stranger.inputs = append(stranger.inputs, value("position_ids", int64s, "texts", "tokens"))
	halves.nodes = append(halves.nodes, node("Cast", []string{"last_hidden_state"}, []string{"halves"}, integer("to", 10)))
	halves.outputs = [][]byte{value("halves", 10, "texts", "tokens", "width")}
	whole.nodes = append(whole.nodes, node("ReduceMax", []string{"last_hidden_state"}, []string{"pooler_output"}, integers("axes", 1), integer("keepdims", 0)))
	whole.outputs = [][]byte{value("pooler_output", float32s, "texts", "width")}
	broken := bag()
	broken.tensors[0] = tensor("words", float32s, floats(slices.Repeat([]float32{float32(math.NaN())}, len(tokens))...), int64(len(tokens)), 1)
	for name, change := range map[string]files{
		"no model":                 {"model.onnx": nil},
		"not a model":              {"model.onnx": []byte("x")},
		"no tokeniser":             {"vocab.txt": nil},
		"a tokeniser of BPE":       {"tokenizer.json": files{"model": files{"type": "BPE"}}},
		"a vocabulary without SEP": {"vocab.txt": []byte("[UNK]\n[CLS]\nsea")},
		"an input unknown":         {"model.onnx": stranger.model()},
		"an output of halves":      {"model.onnx": halves.model()},
		"only a pooler's output":   {"model.onnx": whole.model()},
		"components not finite":    {"model.onnx": broken.model()},
		"a dense layer":            {"modules.json": []files{{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}}},
		"pooling by maximum":       {"1_Pooling/config.json": files{"pooling_mode_max_tokens": true}},
		"two ways of pooling":      {"1_Pooling/config.json": files{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}},
		"pooling unknown":          {"1_Pooling/config.json": files{"pooling_mode": "lasttoken"}},
		"prompts not pooled":       {"1_Pooling/config.json": files{"pooling_mode_mean_tokens": true, "include_prompt": false}},
		"no room for a word":       {"sentence_bert_config.json": files{"max_seq_length": 2}},
		"configuration not JSON":   {"modules.json": []byte("[")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m, err := onnx.Load(folder(t, with(change)), onnx.Options{Library: *library}); err == nil {
				t.Errorf("loaded as %v", m.Model())
			}
		})
	}
	load(t, with(nil))
	if _, err := onnx.Load(folder(t, with(nil)), onnx.Options{Library: *library + ".other"}); err == nil {
		t.Error("a second library is taken")
	}
}

// A run that has begun ends when its caller's time does. The word sea makes this model loop as good as for ever.
func TestDeadlineEndsARun(t *testing.T) {
	t.Parallel()
	rounds := make([]int64, len(tokens))
	rounds[slices.Index(tokens, "sea")] = 1 << 60
	body := graph{
		nodes:   [][]byte{node("Identity", []string{"more"}, []string{"still"}), node("Neg", []string{"before"}, []string{"after"})},
		inputs:  [][]byte{value("round", int64s), value("more", bools), value("before", float32s, "texts", "tokens", "width")},
		outputs: [][]byte{value("still", bools), value("after", float32s, "texts", "tokens", "width")},
	}
	g := bag()
	g.tensors = append(g.tensors, tensor("rounds", int64s, longs(rounds...), int64(len(tokens))), tensor("yes", bools, []byte{1}))
	g.nodes = append(g.nodes,
		node("Gather", []string{"rounds", "input_ids"}, []string{"each"}),
		node("ReduceMax", []string{"each"}, []string{"most"}, integer("keepdims", 0)),
		node("Loop", []string{"most", "yes", "last_hidden_state"}, []string{"turned"}, subgraph("body", body.encode())))
	g.outputs = [][]byte{value("turned", float32s, "texts", "tokens", "width")}
	m := load(t, with(files{"model.onnx": g.model()}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.EmbedQuery(ctx, "sea"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the run ends with %v", err)
	}
	if _, err := m.EmbedDocuments(ctx, []string{"har"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a run after the deadline: %v", err)
	}
	if got, want := query(t, m, "har"), made("[CLS]", "har", "[SEP]"); !near(got, want) {
		t.Errorf("after that: %v, want %v", got, want)
	}
}
