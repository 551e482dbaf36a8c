package model2vec_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"github.com/triskele/triskele/services/embed/model2vec"
)

// array is a tensor to write.
type array struct {
	kind  string
	shape []int
	data  []byte
}

func floats(kind string, shape []int, values ...float64) array {
	a := array{kind: kind, shape: shape}
	for _, x := range values {
		switch kind {
		case "F64":
			a.data = binary.LittleEndian.AppendUint64(a.data, math.Float64bits(x))
		case "F32":
			a.data = binary.LittleEndian.AppendUint32(a.data, math.Float32bits(float32(x)))
		case "F16":
			a.data = binary.LittleEndian.AppendUint16(a.data, uint16(float16.Fromfloat32(float32(x))))
		case "I8":
			a.data = append(a.data, byte(int8(x)))
		case "I64":
			a.data = binary.LittleEndian.AppendUint64(a.data, uint64(int64(x)))
		case "I32":
			a.data = binary.LittleEndian.AppendUint32(a.data, uint32(int32(x)))
		}
	}
	return a
}

func tensors(arrays map[string]array) []byte {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for name, a := range arrays {
		header[name] = map[string]any{"dtype": a.kind, "shape": a.shape, "data_offsets": []int{len(data), len(data) + len(a.data)}}
		data = append(data, a.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
}

// tokens has, in order of the ids: two special tokens, words, a continuation, a mark, an ideograph.
var tokens = []string{"[PAD]", "[UNK]", "harbour", "har", "##bour", "##s", "cafe", "!", "東"}

func tokenizer(change func(spec map[string]any)) []byte {
	vocabulary := map[string]int{}
	for id, token := range tokens {
		vocabulary[token] = id
	}
	spec := map[string]any{
		"added_tokens":  []any{map[string]any{"id": 0, "content": "[PAD]", "special": true}, map[string]any{"id": 1, "content": "[UNK]", "special": true}},
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"model": map[string]any{
			"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary,
		},
	}
	if change != nil {
		change(spec)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return text
}

// oneHot gives token i the i-th direction, scaled, so that a vector shows which tokens it was made of.
func oneHot(kind string) array {
	values := make([]float64, len(tokens)*len(tokens))
	for i := range tokens {
		values[i*len(tokens)+i] = 2
	}
	return floats(kind, []int{len(tokens), len(tokens)}, values...)
}

func folder(t *testing.T, model, tokenizer []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "little")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"model.safetensors": model, "tokenizer.json": tokenizer} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t *testing.T, model, tokenizer []byte) *model2vec.Model {
	t.Helper()
	m, err := model2vec.Load(folder(t, model, tokenizer))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func query(t *testing.T, m *model2vec.Model, text string) []float32 {
	t.Helper()
	v, err := m.EmbedQuery(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// counts undoes the scaling to length 1 of a vector of one-hot tokens: the least component becomes 1.
func counts(vector []float32) map[string]int {
	least := float32(math.Inf(1))
	for _, x := range vector {
		if x > 0 {
			least = min(least, x)
		}
	}
	found := map[string]int{}
	for i, x := range vector {
		if x > 0 {
			found[tokens[i]] = int(math.Round(float64(x / least)))
		}
	}
	return found
}

func TestTokens(t *testing.T) {
	t.Parallel()
	m := load(t, tensors(map[string]array{"embeddings": oneHot("F32")}), tokenizer(nil))
	for text, want := range map[string]map[string]int{
		"Harbour":                     {"harbour": 1},
		"harbours!!":                  {"harbour": 1, "##s": 1, "!": 2},
		"har\thar\nhar bour":          {"har": 1}, // bour is unknown at a word's start
		"CAFÉ! cafe\u0301":            {"cafe": 2, "!": 1},
		"ha\u0000r\u200bbour":         {"harbour": 1}, // control and format characters vanish
		"har東har":                     {"har": 2, "東": 1},
		"harbourx cafe":               {"cafe": 1}, // a word is known whole or not at all
		"harbour [PAD]cafe":           {"harbour": 1, "[PAD]": 1, "cafe": 1},
		"[UNK] cafe":                  {"cafe": 1},
		"[ PAD ] cafe":                {"cafe": 1},
		"cafe—cafe!":                  {"cafe": 2, "!": 1}, // a dash of Unicode is punctuation
		strings.Repeat("har", 34):     {},                  // 102 characters are too long a word
		"unknown":                     {},
		"":                            {},
		strings.Repeat("cafe! ", 400): {"cafe": 1, "!": 1}, // 512 tokens count
	} {
		if got := counts(query(t, m, text)); len(got) != len(want) || !equal(got, want) {
			t.Errorf("%.30q is made of %v, want %v", text, got, want)
		}
	}
}

func equal(a, b map[string]int) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// Texts are cut to 512 tokens of the median length before they are broken up; the median of our tokens is 4 characters.
func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	m := load(t, tensors(map[string]array{"embeddings": oneHot("F32")}), tokenizer(nil))
	if got := counts(query(t, m, "cafe "+strings.Repeat(" ", 512*4)+"harbour")); !equal(got, map[string]int{"cafe": 1}) || len(got) != 1 {
		t.Errorf("made of %v, want what stands in the first 2,048 characters", got)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	want := query(t, load(t, tensors(map[string]array{"embeddings": oneHot("F32")}), tokenizer(nil)), "harbours!")
	for _, kind := range []string{"F64", "F16", "I8"} {
		if got := query(t, load(t, tensors(map[string]array{"embeddings": oneHot(kind)}), tokenizer(nil)), "harbours!"); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}

// Models with a quantised vocabulary have fewer rows than tokens, and weights beside them.
func TestMappingAndWeights(t *testing.T) {
	t.Parallel()
	n := []int{len(tokens)}
	for _, kind := range []string{"I64", "I32"} {
		m := load(t, tensors(map[string]array{
			"embeddings": floats("F32", []int{2, 2}, 1, 0, 0, 1),
			"mapping":    floats(kind, n, 0, 0, 0, 1, 1, 1, 1, 1, 1),
			"weights":    floats("F32", n, 1, 1, 3, 1, 1, 4, 1, 1, 1),
		}), tokenizer(nil))
		if got := query(t, m, "harbours"); math.Abs(float64(got[0])-0.6) > 1e-6 || math.Abs(float64(got[1])-0.8) > 1e-6 {
			t.Errorf("%s: %v, want 0.6 and 0.8", kind, got)
		}
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	m := load(t, tensors(map[string]array{"embeddings": oneHot("F32")}), tokenizer(nil)).Model()
	if m.Provider != "model2vec" || !strings.HasPrefix(m.Name, "little@") || m.Dimensions != len(tokens) || !m.Local {
		t.Errorf("%+v", m)
	}
	if other := load(t, tensors(map[string]array{"embeddings": oneHot("F16")}), tokenizer(nil)).Model(); other.Name == m.Name {
		t.Errorf("models with other numbers share the name %s", m.Name)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	good := tensors(map[string]array{"embeddings": oneHot("F32")})
	set := func(part string, value any) func(map[string]any) {
		return func(spec map[string]any) { spec[part] = value }
	}
	for name, c := range map[string]struct{ model, tokenizer []byte }{
		"no tensors":            {[]byte("short"), tokenizer(nil)},
		"a header too long":     {[]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), tokenizer(nil)},
		"a header that is cut":  {good[:40], tokenizer(nil)},
		"data that is cut":      {good[:len(good)-1], tokenizer(nil)},
		"no embeddings":         {tensors(map[string]array{"weights": floats("F32", []int{9}, 1, 1, 1, 1, 1, 1, 1, 1, 1)}), tokenizer(nil)},
		"an unknown tensor":     {tensors(map[string]array{"embeddings": oneHot("F32"), "attention": floats("F32", []int{1}, 1)}), tokenizer(nil)},
		"one axis":              {tensors(map[string]array{"embeddings": floats("F32", []int{9}, 1, 1, 1, 1, 1, 1, 1, 1, 1)}), tokenizer(nil)},
		"a shape that is wrong": {tensors(map[string]array{"embeddings": floats("F32", []int{9, 2}, 1, 1)}), tokenizer(nil)},
		"fewer rows":            {tensors(map[string]array{"embeddings": floats("F32", []int{1, 2}, 1, 1)}), tokenizer(nil)},
		"numbers unknown":       {tensors(map[string]array{"embeddings": {kind: "U8", shape: []int{9, 1}, data: make([]byte, 9)}}), tokenizer(nil)},
		"a mapping to nowhere": {tensors(map[string]array{"embeddings": floats("F32", []int{1, 2}, 1, 1),
			"mapping": floats("I64", []int{9}, 0, 0, 0, 0, 0, 0, 0, 0, 1)}), tokenizer(nil)},
		"not a tokenizer":       {good, []byte("x")},
		"another kind of model": {good, tokenizer(set("model", map[string]any{"type": "BPE"}))},
		"another normaliser":    {good, tokenizer(set("normalizer", map[string]any{"type": "NFC"}))},
		"another splitting":     {good, tokenizer(set("pre_tokenizer", map[string]any{"type": "Whitespace"}))},
		"an id out of range":    {good, tokenizer(set("added_tokens", []any{map[string]any{"id": 99, "content": "[PAD]"}}))},
	} {
		if _, err := model2vec.Load(folder(t, c.model, c.tokenizer)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := model2vec.Load(t.TempDir()); err == nil {
		t.Error("an empty folder is no model")
	}
}

// packed is a packed model whose token i has the i-th direction.
func packed() []byte {
	n := len(tokens)
	file := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte("GGE1"), uint32(n)), uint32(n))
	for range tokens {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(0.5))
	}
	file = append(file, oneHot("I8").data...)
	for _, token := range tokens {
		file = append(binary.LittleEndian.AppendUint16(file, uint16(len(token))), token...)
	}
	return file
}

func loadPacked(t *testing.T, file []byte) (*model2vec.Model, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "little")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "little.gge1.bin"), file, 0o644); err != nil {
		t.Fatal(err)
	}
	return model2vec.Load(dir)
}

// A packed model gives the vectors of the published one.
func TestPacked(t *testing.T) {
	t.Parallel()
	published := load(t, tensors(map[string]array{"embeddings": oneHot("F32")}), tokenizer(nil))
	m, err := loadPacked(t, packed())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CAFÉ harbours!", "har東 unknown cafe", "", "[PAD] [UNK] harbour"} {
		if got, want := query(t, m, text), query(t, published, text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := m.Model(); !strings.HasPrefix(got.Name, "little@") || got.Name == published.Model().Name || got.Dimensions != len(tokens) {
		t.Errorf("%+v", got)
	}
	file := packed()
	for name, broken := range map[string][]byte{
		"nothing": nil, "another magic": append([]byte("GGE2"), file[4:]...), "a byte short": file[:len(file)-1], "a byte long": append(file, 0),
		"rows cut": file[:60], "no rows": append([]byte("GGE1\x00\x00\x00\x00"), file[8:]...),
		"rows without end": append([]byte("GGE1\xff\xff\xff\xff\xff\xff\xff\xff"), file[12:]...),
	} {
		if _, err := loadPacked(t, broken); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
