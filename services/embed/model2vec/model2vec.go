// Package model2vec embeds with models of the Model2Vec kind (github.com/MinishLab/model2vec), such as potion: a vector
// per word piece, averaged. It reads the folder they are published in and gives the vectors that the original gives.
package model2vec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/internal/wordpiece"
)

// maxTokens is how many tokens of a text count, and a bound on the characters that are looked at: both the original's.
const maxTokens = 512

// Model is a loaded model.
type Model struct {
	model     embed.Model
	tokenizer *wordpiece.Tokenizer
	rows      []float32 // one after the other
	mapping   []int     // rows of tokens; nil if token i has row i
	weights   []float32 // of tokens; nil if all count alike
}

var _ embed.Embedder = (*Model)(nil)

// Load reads a model from a folder: model.safetensors and tokenizer.json, or one packed file *.gge1.bin. The model is named
// after the folder and a checksum of its numbers, so that vectors of different models are never taken for those of one.
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

// loadPublished reads a model as it is published, and returns the file with its numbers.
func (m *Model) loadPublished(folder string) ([]byte, error) {
	file, err := os.ReadFile(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	tensors, err := parseTensors(file)
	if err != nil {
		return nil, fmt.Errorf("model.safetensors: %w", err)
	}
	if err := m.load(tensors); err != nil {
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
		return nil, fmt.Errorf("%d tokens do not match %d rows", n, len(m.rows)/m.model.Dimensions)
	}
	if m.mapping != nil && len(m.mapping) != n || m.weights != nil && len(m.weights) != n {
		return nil, fmt.Errorf("%d tokens do not match %d mappings or %d weights", n, len(m.mapping), len(m.weights))
	}
	return file, nil
}

func (m *Model) load(tensors map[string]tensor) (err error) {
	for name, t := range tensors {
		switch name {
		case "embeddings", "embedding.weight":
			if len(t.Shape) != 2 || t.count() < 1 {
				return fmt.Errorf("%s has shape %v, not rows and dimensions", name, t.Shape)
			}
			m.model.Dimensions = t.Shape[1]
			m.rows, err = t.floats()
		case "weights":
			m.weights, err = t.floats()
		case "mapping":
			m.mapping, err = t.integers()
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
			return fmt.Errorf("tensor mapping: there is no row %d", row)
		}
	}
	return nil
}

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model { return m.model }

// EmbedQuery implements embed.Embedder. It has no error.
func (m *Model) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return m.embed(text), nil
}

// EmbedDocuments implements embed.Embedder. Its only error is ctx's.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = m.embed(text)
	}
	return vectors, nil
}

// embed averages the rows of a text's tokens. Vectors have length 1 whether or not the model's config.json
// says normalize: embed.Embedder asks for it, and only directions are searched by.
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
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	if squares > 0 {
		length := math.Sqrt(squares)
		for k := range vector {
			vector[k] = float32(float64(vector[k]) / length)
		}
	}
	return vector
}
