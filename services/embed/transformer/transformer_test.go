package transformer_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/transformer/modeltest"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/transformer"
)

// tokens have the ids 0 and up.
var tokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sea", "har", "##bour", "!", "query", ":"}

// shape has a dimension for each token.
var shape = modeltest.Shape{Words: len(tokens), Hidden: len(tokens), Layers: 1, Heads: 1, Intermediate: 1, Positions: 512, Segments: 2}

// words are the weights of a model that gives token i the i-th direction, so that a vector shows which tokens it was made of.
func words() map[string]modeltest.Tensor {
	all := shape.Tensors()
	for i := range tokens {
		all["embeddings.word_embeddings.weight"].Data[i*len(tokens)+i] = 1
	}
	return all
}

// files of a folder by their names.
type files = map[string]any

// with returns the files of a complete folder after a change; nil takes a file away.
func with(change files) files {
	all := files{
		"config.json": shape.Config(), "model.safetensors": modeltest.Safetensors(words(), "F32"), "vocab.txt": modeltest.Vocabulary(len(tokens), tokens...),
	}
	maps.Copy(all, change)
	return all
}

func load(t *testing.T, all files) embed.Embedder {
	t.Helper()
	m, err := transformer.Load(modeltest.Write(t, all), transformer.Options{})
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

// made is the vector of length 1 of a text that has these tokens. The model's norms make the mean of its components 0.
func made(of ...string) []float32 {
	v := make([]float32, len(tokens))
	for _, token := range of {
		v[slices.Index(tokens, token)]++
	}
	for i := range v {
		v[i] -= float32(len(of)) / float32(len(tokens))
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
	// More than one group of texts, by several callers at a time.
	var documents []string
	for range 100 {
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
	short, few := shape, words()
	short.Positions = 3
	few["embeddings.position_embeddings.weight"] = short.Tensors()["embeddings.position_embeddings.weight"]
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
		"a limit":                     {files{"sentence_bert_config.json": files{"max_seq_length": 4}}, "sea ! har", made("[CLS]", "sea", "!", "[SEP]")},
		"a limit of BERT's":           {files{"config.json": short.Config(), "model.safetensors": modeltest.Safetensors(few, "F32")}, "sea ! har", made("[CLS]", "sea", "[SEP]")},
		"a limit of the tokenizer's":  {files{"tokenizer_config.json": files{"model_max_length": 4}}, "sea ! har", made("[CLS]", "sea", "!", "[SEP]")},
		"no limit of the tokenizer's": {files{"tokenizer_config.json": files{"model_max_length": 1e30}}, "sea ! har", made("[CLS]", "sea", "!", "har", "[SEP]")},
		"two limits":                  {files{"tokenizer_config.json": files{"model_max_length": 4}, "sentence_bert_config.json": files{"max_seq_length": 3}}, "sea ! har", made("[CLS]", "sea", "[SEP]")},
		"cased":                       {files{"tokenizer_config.json": files{"do_lower_case": lower}}, "SEA", made("[CLS]", "[UNK]", "[SEP]")},
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

func TestModel(t *testing.T) {
	t.Parallel()
	prompts := files{"config_sentence_transformers.json": files{"prompts": files{"query": "query: ", "passage": "passage: "}}}
	plain, prompted := load(t, with(nil)).Model(), load(t, with(prompts)).Model()
	if plain.Provider != "transformer" || !strings.HasPrefix(plain.Name, "model@") || plain.Dimensions != len(tokens) || !plain.Local || plain.QueryPrefix != "" {
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
	m, err := transformer.Load(modeltest.Write(t, with(prompts)), transformer.Options{QueryPrefix: &prefix, DocumentPrefix: &none})
	if err != nil || m.Model().QueryPrefix != prefix || m.Model().DocumentPrefix != none {
		t.Errorf("with prefixes given: %v", err)
	}
	if pooled := load(t, with(files{"1_Pooling/config.json": files{"pooling_mode": "cls"}})).Model(); pooled.Name == plain.Name {
		t.Errorf("models that pool in different ways share the name %s", pooled.Name)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	broken := words()
	broken["embeddings.word_embeddings.weight"].Data[slices.Index(tokens, "sea")*len(tokens)] = float32(math.NaN())
	for name, change := range map[string]files{
		"no model":                 {"model.safetensors": nil},
		"no tokeniser":             {"vocab.txt": nil},
		"a tokeniser of BPE":       {"tokenizer.json": files{"model": files{"type": "BPE"}}},
		"a vocabulary without SEP": {"vocab.txt": []byte("[UNK]\n[CLS]\nsea")},
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
			if m, err := transformer.Load(modeltest.Write(t, with(change)), transformer.Options{}); err == nil {
				t.Errorf("loaded as %v", m.Model())
			}
		})
	}
	if v, err := load(t, with(files{"model.safetensors": modeltest.Safetensors(broken, "F32")})).EmbedQuery(t.Context(), "sea"); err == nil {
		t.Errorf("a broken model makes the vector %v", v)
	}
}

// A call that has begun ends when its caller's time does.
func TestDeadlineEndsACall(t *testing.T) {
	t.Parallel()
	m := load(t, with(nil))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := m.EmbedDocuments(ctx, slices.Repeat([]string{strings.Repeat("sea ", 510)}, 2000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ends with %v", err)
	}
	if _, err := m.EmbedQuery(ctx, "sea"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call after the deadline: %v", err)
	}
	if got, want := query(t, m, "har"), made("[CLS]", "har", "[SEP]"); !near(got, want) {
		t.Errorf("after that: %v, want %v", got, want)
	}
}
