//go:build onnx

package onnx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/triskele/triskele/services/embed"
)

// batch is the number of texts in one run of the model.
const batch = 32

// Model is a loaded model. It may be used concurrently. It stays loaded until the process ends.
type Model struct {
	model   embed.Model
	layout  layout
	session *ort.DynamicAdvancedSession
	inputs  []string
	pooled  bool // the model returns a vector for each text, not for each token
	// ids of [CLS], [SEP] and [PAD]
	start, end, pad int64
}

var _ embed.Embedder = (*Model)(nil)

// Load reads a model from a folder: model.onnx (or onnx/model.onnx) and BERT's tokenizer.json (or vocab.txt). The length of
// texts, the pooling and the prefixes come from config.json, modules.json, 1_Pooling/config.json,
// sentence_bert_config.json and config_sentence_transformers.json, which may be missing. Load runs the model once to learn
// its dimensions. The model's name is the folder's name and a checksum of the model, the tokenizer and the configuration.
func Load(folder string, options Options) (embed.Embedder, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	l, err := readLayout(path)
	if err != nil {
		return nil, err
	}
	if err := initialize(cmp.Or(options.Library, "libonnxruntime.so")); err != nil {
		return nil, err
	}
	m := &Model{layout: l}
	m.start, m.end, m.pad = m.token("[CLS]"), m.token("[SEP]"), m.token("[PAD]")
	if err := m.open(); err != nil {
		return nil, err
	}
	if m.model, err = describe(path, l, options); err == nil {
		var vectors [][]float32
		if vectors, err = m.embed(context.Background(), []string{"dimensions"}); err == nil {
			m.model.Dimensions = len(vectors[0])
			return m, nil
		}
	}
	return nil, errors.Join(err, m.session.Destroy())
}

// describe returns a model's name and prefixes.
func describe(folder string, l layout, options Options) (embed.Model, error) {
	sum := sha256.New()
	for _, path := range []string{l.model, filepath.Join(folder, "tokenizer.json"), filepath.Join(folder, "vocab.txt")} {
		file, err := os.Open(path)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			_, err = io.Copy(sum, file)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return embed.Model{}, err
		}
	}
	_, _ = fmt.Fprint(sum, l.pooling, l.tokens)
	model := embed.Model{
		Provider: "onnx", Name: filepath.Base(folder) + "@" + hex.EncodeToString(sum.Sum(nil)[:4]), Local: true,
		DocumentPrefix: l.document, QueryPrefix: l.query,
	}
	if options.DocumentPrefix != nil {
		model.DocumentPrefix = *options.DocumentPrefix
	}
	if options.QueryPrefix != nil {
		model.QueryPrefix = *options.QueryPrefix
	}
	return model, nil
}

// token returns the id of a token, or 0 if it is missing.
func (m *Model) token(name string) int64 {
	id, _ := m.layout.tokenizer.ID(name)
	return int64(id)
}

// runtime holds the library of ONNX Runtime. A process loads one.
var runtime struct {
	sync.Mutex
	library string
}

func initialize(library string) error {
	runtime.Lock()
	defer runtime.Unlock()
	if runtime.library == library {
		return nil
	}
	if runtime.library != "" {
		return fmt.Errorf("ONNX Runtime is already loaded from %s: a process can use one library", runtime.library)
	}
	ort.SetSharedLibraryPath(library)
	// ONNX Runtime returns its errors, and need not write them to standard error too.
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		return fmt.Errorf("ONNX Runtime: %w", err)
	}
	runtime.library = library
	if err := ort.DisableTelemetry(); err != nil {
		return fmt.Errorf("ONNX Runtime: %w", err)
	}
	return nil
}

// open makes the session. It finds the model's inputs, and its output for tokens or for texts.
func (m *Model) open() error {
	inputs, outputs, err := ort.GetInputOutputInfo(m.layout.model)
	if err != nil {
		return fmt.Errorf("model.onnx: %w", err)
	}
	for _, input := range inputs {
		if !slices.Contains([]string{"input_ids", "attention_mask", "token_type_ids"}, input.Name) || input.DataType != ort.TensorElementDataTypeInt64 {
			return fmt.Errorf("model.onnx: the input %s of %v is not supported: there may be input_ids, attention_mask and token_type_ids of int64", input.Name, input.DataType)
		}
		m.inputs = append(m.inputs, input.Name)
	}
	// An output sentence_embedding has the vectors of texts. A pooler_output has not: BERT has trained it for another task.
	output := slices.IndexFunc(outputs, func(o ort.InputOutputInfo) bool { return o.Name == "sentence_embedding" && len(o.Dimensions) == 2 })
	m.pooled = output >= 0
	if !m.pooled {
		output = slices.IndexFunc(outputs, func(o ort.InputOutputInfo) bool { return len(o.Dimensions) == 3 })
	}
	if output < 0 || outputs[output].DataType != ort.TensorElementDataTypeFloat {
		return errors.New("model.onnx: there must be an output of float32 with a vector for each token, or sentence_embedding with one for each text")
	}
	if m.session, err = ort.NewDynamicAdvancedSession(m.layout.model, m.inputs, []string{outputs[output].Name}, nil); err != nil {
		return fmt.Errorf("model.onnx: %w", err)
	}
	return nil
}

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model { return m.model }

// EmbedQuery implements embed.Embedder.
func (m *Model) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := m.embed(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// EmbedDocuments implements embed.Embedder. It batches texts of similar length, which need little padding.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(texts[a]), len(texts[b])) })
	vectors := make([][]float32, len(texts))
	for some := range slices.Chunk(order, batch) {
		together := make([]string, len(some))
		for i, at := range some {
			together[i] = texts[at]
		}
		found, err := m.embed(ctx, together)
		if err != nil {
			return nil, err
		}
		for i, at := range some {
			vectors[at] = found[i]
		}
	}
	return vectors, nil
}

// embed runs the model on one batch. It ends early when ctx ends.
func (m *Model) embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tokens, mask, longest := m.encode(texts)
	shape := ort.NewShape(int64(len(texts)), int64(longest))
	output, err := m.run(ctx, shape, map[string][]int64{
		"input_ids": tokens, "attention_mask": mask, "token_type_ids": make([]int64, len(tokens)),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Destroy() }()
	given := output.GetShape()
	if want := map[bool]ort.Shape{true: shape[:1], false: shape}[m.pooled]; len(given) != len(want)+1 || !given[:len(want)].Equals(want) {
		return nil, fmt.Errorf("model.onnx: the output has the shape %v for an input of %v", given, shape)
	}
	return m.pool(output.GetData(), mask, len(texts), longest, int(given[len(given)-1]))
}

// encode returns the token ids of each text, padded to the longest text, and the attention mask: 1 for tokens, 0 for padding.
func (m *Model) encode(texts []string) (tokens, mask []int64, longest int) {
	ids := make([][]int, len(texts))
	for i, text := range texts {
		ids[i] = m.layout.tokenizer.IDs(text)
		ids[i] = ids[i][:min(len(ids[i]), m.layout.tokens-2)]
		longest = max(longest, len(ids[i])+2)
	}
	tokens, mask = slices.Repeat([]int64{m.pad}, len(texts)*longest), make([]int64, len(texts)*longest)
	for i := range texts {
		row, here := tokens[i*longest:(i+1)*longest], mask[i*longest:(i+1)*longest]
		row[0] = m.start
		for k, id := range ids[i] {
			row[k+1] = int64(id)
		}
		end := len(ids[i]) + 1
		row[end] = m.end
		for k := range end + 1 {
			here[k] = 1
		}
	}
	return tokens, mask, longest
}

// run returns the model's output for its inputs by name. The caller destroys the output.
func (m *Model) run(ctx context.Context, shape ort.Shape, values map[string][]int64) (*ort.Tensor[float32], error) {
	inputs := make([]ort.Value, len(m.inputs))
	for i, name := range m.inputs {
		input, err := ort.NewTensor(shape, values[name])
		if err != nil {
			return nil, err
		}
		defer func() { _ = input.Destroy() }()
		inputs[i] = input
	}
	options, err := ort.NewRunOptions()
	if err != nil {
		return nil, err
	}
	defer func() { _ = options.Destroy() }()
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		_ = options.Terminate()
	})
	outputs := []ort.Value{nil}
	err = m.session.RunWithOptions(inputs, outputs, options)
	if !stop() {
		<-left // the function still uses options
	}
	if err != nil {
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("model.onnx: %w", err))
	}
	output, ok := outputs[0].(*ort.Tensor[float32])
	if !ok {
		return nil, errors.Join(errors.New("model.onnx: the output is not of float32"), outputs[0].Destroy())
	}
	return output, nil
}

// pool returns a vector of length 1 for each text, from the output of texts*tokens*dimensions (texts*dimensions if pooled).
func (m *Model) pool(output []float32, mask []int64, texts, tokens, dimensions int) ([][]float32, error) {
	vectors := make([][]float32, texts)
	for i := range vectors {
		vector := make([]float32, dimensions)
		switch {
		case m.pooled:
			copy(vector, output[i*dimensions:])
		case m.layout.pooling == first:
			copy(vector, output[i*tokens*dimensions:])
		default: // the sum has the direction of the mean
			for k := range tokens {
				at := i*tokens + k
				if mask[at] == 0 {
					continue
				}
				for d, x := range output[at*dimensions : (at+1)*dimensions] {
					vector[d] += x
				}
			}
		}
		if !embed.Normalize(vector) {
			return nil, errors.New("model.onnx: a vector has components that are not finite")
		}
		vectors[i] = vector
	}
	return vectors, nil
}
