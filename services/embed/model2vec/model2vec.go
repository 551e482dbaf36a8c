// Package model2vec embeds with Model2Vec models (github.com/MinishLab/model2vec), such as potion. A text's vector is the
// average of one stored vector for each of its tokens:
//
//  1. Load reads a published folder: the tokenizer (tokenizer.json) and the table of vectors (model.safetensors). Newer
//     tables also have a weight for each token, and map tokens to shared rows. A folder may hold one packed file instead.
//  2. The WordPiece tokenizer turns a text into at most 512 tokens. Unknown tokens are dropped.
//  3. The weighted rows of the tokens are added up and scaled to length 1.
//
// The vectors equal those of the original library with normalisation.
package model2vec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/triskele/triskele/fuser/transformer/safetensors"
	"github.com/triskele/triskele/fuser/transformer/wordpiece"
	"github.com/triskele/triskele/services/embed"
)

// maxTokens bounds the tokens of a text. Like the original, embed also cuts texts at maxTokens times the median token length.
const maxTokens = 512

// Model is a loaded model.
type Model struct {
	model     embed.Model
	tokenizer *wordpiece.Tokenizer
	rows      []float32 // concatenated, model.Dimensions components each
	mapping   []int     // row of each token; nil if token i has row i
	weights   []float32 // weight of each token; nil if all weights are 1
}

var _ embed.Embedder = (*Model)(nil)

// Load reads a model from a folder with model.safetensors and tokenizer.json, or with one packed file *.gge1.bin. The model's
// name is the folder's name and a checksum of the numbers, so that different models never share a name.
func Load(folder string) (*Model, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	packed, err := filepath.Glob(filepath.Join(path, packedPattern))
	if err != nil {
		return nil, err
	}
	m := &Model{}
	var file []byte
	if len(packed) == 1 {
		if file, err = os.ReadFile(packed[0]); err == nil {
			err = m.loadPacked(file)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(packed[0]), err)
		}
	} else if file, err = m.loadPublished(path); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(file)
	m.model.Provider, m.model.Name, m.model.Local = "model2vec", filepath.Base(path)+"@"+hex.EncodeToString(sum[:4]), true
	return m, nil
}

// loadPublished reads model.safetensors and tokenizer.json. It returns the contents of the former.
func (m *Model) loadPublished(folder string) ([]byte, error) {
	file, err := os.ReadFile(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	tensors, err := safetensors.Read(bytes.NewReader(file), int64(len(file)))
	if err == nil {
		err = m.load(tensors)
	}
	if err != nil {
		return nil, fmt.Errorf("model.safetensors: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	if m.tokenizer, err = wordpiece.Parse(text); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	n := m.tokenizer.Size()
	if m.mapping == nil && len(m.rows) != n*m.model.Dimensions {
		return nil, fmt.Errorf("the tokenizer has %d tokens, and model.safetensors has %d rows", n, len(m.rows)/m.model.Dimensions)
	}
	if m.mapping != nil && len(m.mapping) != n || m.weights != nil && len(m.weights) != n {
		return nil, fmt.Errorf("the tokenizer has %d tokens, and model.safetensors has %d mappings and %d weights", n, len(m.mapping), len(m.weights))
	}
	return file, nil
}

func (m *Model) load(tensors map[string]safetensors.Tensor) (err error) {
	for name, t := range tensors {
		switch name {
		case "embeddings", "embedding.weight":
			if len(t.Shape) != 2 || t.Count() < 1 {
				return fmt.Errorf("tensor %q has the shape %v: it must be rows and dimensions", name, t.Shape)
			}
			m.model.Dimensions = t.Shape[1]
			m.rows, err = t.Floats()
		case "weights":
			m.weights, err = t.Floats()
		case "mapping":
			m.mapping, err = t.Integers()
		default:
			err = errors.New("unknown: there may be embeddings, weights and mapping")
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	if m.rows == nil {
		return errors.New("there is no tensor embeddings")
	}
	for _, row := range m.mapping {
		if row < 0 || row >= len(m.rows)/m.model.Dimensions {
			return fmt.Errorf("tensor \"mapping\" names row %d of %d rows", row, len(m.rows)/m.model.Dimensions)
		}
	}
	return nil
}

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model { return m.model }

// EmbedQuery implements embed.Embedder. It never fails.
func (m *Model) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return m.embed(text), nil
}

// EmbedDocuments implements embed.Embedder. Its only error is ctx's.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return embed.Each(ctx, texts, m.embed)
}

// embed averages the rows of a text's tokens. The vector has length 1 even if the model's config.json does not ask for it,
// as embed.Embedder requires.
func (m *Model) embed(text string) []float32 {
	runes := 0
	for i := range text {
		if runes++; runes > maxTokens*m.tokenizer.MedianLength() {
			text = text[:i]
			break
		}
	}
	unknown := m.tokenizer.Unknown()
	ids := slices.DeleteFunc(m.tokenizer.IDs(text), func(id int) bool { return id == unknown }) // as the original does
	d := m.model.Dimensions
	vector := make([]float32, d)
	for _, id := range ids[:min(len(ids), maxTokens)] {
		weight, row := float32(1), id
		if m.weights != nil {
			weight = m.weights[id]
		}
		if m.mapping != nil {
			row = m.mapping[id]
		}
		for k, x := range m.rows[row*d : (row+1)*d] {
			vector[k] += weight * x
		}
	}
	embed.Normalize(vector)
	return vector
}
