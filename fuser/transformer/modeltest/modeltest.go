// Package modeltest has transformer models for tests.
package modeltest

import (
	"cmp"
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"
)

// oracle.py writes tiny.
//
//go:embed tiny
var files embed.FS

// Tiny returns a folder with a random cross-encoder of 2 layers of 36 numbers. The folder also has an oracle.json.
func Tiny(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, files); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "tiny")
}

// Shape is the shape of a model.
type Shape struct{ Words, Hidden, Layers, Heads, Intermediate, Positions, Segments, Labels int }

// Tensor is an array of numbers.
type Tensor struct {
	Shape []int
	Data  []float32
}

// Config is what config.json has for a shape.
func (s Shape) Config() map[string]any {
	return map[string]any{
		"model_type": "bert", "hidden_size": s.Hidden, "num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "intermediate_size": s.Intermediate,
		"max_position_embeddings": s.Positions, "type_vocab_size": s.Segments, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
	}
}

// Tensors returns the tensors of a model, with zeros, and ones for the weights of norms. A shape without labels has no head.
func (s Shape) Tensors() map[string]Tensor {
	all := map[string]Tensor{}
	add := func(name string, shape ...int) Tensor {
		n := 1
		for _, size := range shape {
			n *= size
		}
		all[name] = Tensor{shape, make([]float32, n)}
		return all[name]
	}
	linear := func(name string, out, in int) {
		add(name+".weight", out, in)
		add(name+".bias", out)
	}
	norm := func(name string) {
		for i := range add(name+".weight", s.Hidden).Data {
			all[name+".weight"].Data[i] = 1
		}
		add(name+".bias", s.Hidden)
	}
	add("embeddings.word_embeddings.weight", s.Words, s.Hidden)
	add("embeddings.position_embeddings.weight", s.Positions, s.Hidden)
	add("embeddings.token_type_embeddings.weight", s.Segments, s.Hidden)
	norm("embeddings.LayerNorm")
	for i := range s.Layers {
		layer := fmt.Sprintf("encoder.layer.%d.", i)
		for _, name := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
			linear(layer+name, s.Hidden, s.Hidden)
		}
		norm(layer + "attention.output.LayerNorm")
		linear(layer+"intermediate.dense", s.Intermediate, s.Hidden)
		linear(layer+"output.dense", s.Hidden, s.Intermediate)
		norm(layer + "output.LayerNorm")
	}
	if s.Labels > 0 {
		linear("pooler.dense", s.Hidden, s.Hidden)
		linear("classifier", s.Labels, s.Hidden)
	}
	return all
}

// Random adds random numbers to tensors. They are multiples of 1/128 below 1, which every type holds.
func Random(tensors map[string]Tensor, random *rand.Rand) {
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		for i := range t.Data {
			t.Data[i] += float32(math.Round(max(-1, min(1, random.NormFloat64()/4))*64) / 128)
		}
	}
}

// Safetensors returns a file of tensors of the type F32, F16 or BF16, or of matrices of the type I8 with scales of 1/128.
func Safetensors(tensors map[string]Tensor, kind string) []byte {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	kinds := map[string]string{}
	if kind == "I8" {
		tensors = maps.Clone(tensors)
		for name, t := range tensors {
			kinds[name] = "F32"
			if len(t.Shape) == 2 {
				kinds[name], kinds[name+".scale"] = "I8", "F32"
				tensors[name+".scale"] = Tensor{t.Shape[:1], slices.Repeat([]float32{1. / 128}, t.Shape[0])}
			}
		}
	}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t, start := tensors[name], len(data)
		kind := cmp.Or(kinds[name], kind)
		for _, x := range t.Data {
			switch kind {
			case "I8":
				data = append(data, byte(int8(128*x)))
			case "F32":
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			case "F16":
				data = binary.LittleEndian.AppendUint16(data, float16.Fromfloat32(x).Bits())
			case "BF16":
				data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(x)>>16))
			}
		}
		header[name] = map[string]any{"dtype": kind, "shape": t.Shape, "data_offsets": []int{start, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
}

// Vocabulary returns a vocab.txt of n tokens, which begins with those given.
func Vocabulary(n int, tokens ...string) []byte {
	for i := len(tokens); i < n; i++ {
		tokens = append(tokens, fmt.Sprintf("[unused%d]", i))
	}
	return []byte(strings.Join(tokens, "\n") + "\n")
}

// Write writes files to a new folder named model. Contents that are not bytes are written as JSON; nil leaves a file out.
func Write(t testing.TB, contents map[string]any) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "model")
	for name, content := range contents {
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
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
