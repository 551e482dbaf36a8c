// Package transformer embeds with a model of the BERT architecture that runs in this process (package fuser/transformer). The
// model is a folder in the layout of sentence-transformers. A text is embedded in these steps:
//
//  1. The tokenizer turns it into token ids between [CLS] and [SEP], cut at the model's limit.
//  2. The model makes a vector of each token.
//  3. The vectors are pooled as the model's configuration says: their mean, or the first.
//  4. The vector is scaled to length 1.
package transformer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/triskele/triskele/fuser/transformer"
	"github.com/triskele/triskele/services/embed"
)

// Options complete the model's folder.
type Options struct {
	// DocumentPrefix and QueryPrefix replace the prompts of the model's configuration, if they are not nil.
	DocumentPrefix, QueryPrefix *string
}

// Model is a loaded model. It may be used concurrently.
type Model struct {
	model    embed.Model
	settings settings
	bert     *transformer.Model
}

var _ embed.Embedder = (*Model)(nil)

// Load reads a model from a folder: what transformer.Load reads, and how to use it from modules.json, 1_Pooling/config.json,
// sentence_bert_config.json, tokenizer_config.json and config_sentence_transformers.json, which may be missing. The model's name is
// the folder's name and a checksum of the model, the tokenizer and the configuration.
func Load(folder string, options Options) (*Model, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	if m.bert, err = transformer.Load(os.DirFS(path)); err != nil {
		return nil, err
	}
	if m.settings, err = readSettings(path, m.bert.Positions()); err != nil {
		return nil, err
	}
	sum, err := checksum(path, m.settings)
	if err != nil {
		return nil, err
	}
	m.model = embed.Model{
		Provider: "transformer", Name: filepath.Base(path) + "@" + sum, Dimensions: m.bert.Dimensions(), Local: true,
		DocumentPrefix: *cmp.Or(options.DocumentPrefix, &m.settings.document), QueryPrefix: *cmp.Or(options.QueryPrefix, &m.settings.query),
	}
	return m, nil
}

// checksum returns eight digits of what a vector depends on.
func checksum(folder string, s settings) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "vocab.txt"} {
		file, err := os.Open(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = io.Copy(sum, file)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return "", err
		}
	}
	_, _ = fmt.Fprint(sum, s.pooling, s.tokens)
	return hex.EncodeToString(sum.Sum(nil)[:4]), nil
}

// Model implements embed.Embedder.
func (m *Model) Model() embed.Model { return m.model }

// EmbedQuery implements embed.Embedder.
func (m *Model) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	vectors, err := m.EmbedDocuments(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// EmbedDocuments implements embed.Embedder. It ends early when ctx ends.
func (m *Model) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	sequences := make([]transformer.Sequence, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sequences[i].IDs = m.bert.Tokens(text, m.settings.tokens)
	}
	vectors, finite := make([][]float32, len(texts)), true
	err := m.bert.Hidden(ctx, sequences, func(i int, states []float32) {
		vectors[i] = m.pool(states)
		finite = embed.Normalize(vectors[i]) && finite
	})
	if err == nil && !finite {
		err = errors.New("model.safetensors: a vector has components that are not finite")
	}
	if err != nil {
		return nil, err
	}
	return vectors, nil
}

// pool returns the first vector of a text's tokens, or their sum, which has the direction of the mean.
func (m *Model) pool(states []float32) []float32 {
	vector := make([]float32, m.model.Dimensions)
	if m.settings.pooling == first {
		states = states[:len(vector)]
	}
	for len(states) > 0 {
		for k, x := range states[:len(vector)] {
			vector[k] += x
		}
		states = states[len(vector):]
	}
	return vector
}
