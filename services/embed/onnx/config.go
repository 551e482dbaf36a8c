//go:build onnx

package onnx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/triskele/triskele/fuser/transformer/wordpiece"
)

// layout is a model's configuration, from the files of its folder.
type layout struct {
	model     string // path of the .onnx file
	tokenizer *wordpiece.Tokenizer
	pooling   pooling
	tokens    int    // bound for a text, with [CLS] and [SEP]
	document  string // prefix
	query     string // prefix
}

// pooling is the way to make one vector of the vectors of a text's tokens. It has the names of sentence-transformers.
type pooling string

const (
	mean  pooling = "mean"
	first pooling = "cls"
)

// defaultTokens is the number of BERT's positions.
const defaultTokens = 512

// readLayout reads a folder. The model and its tokenizer must exist. Other missing files mean the defaults of
// sentence-transformers.
func readLayout(folder string) (layout, error) {
	l := layout{pooling: mean, tokens: defaultTokens}
	for _, name := range []string{"model.onnx", filepath.Join("onnx", "model.onnx")} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			l.model = filepath.Join(folder, name)
			break
		}
	}
	if l.model == "" {
		return l, fmt.Errorf("%s has neither model.onnx nor onnx/model.onnx", folder)
	}
	for _, read := range []func(string) error{l.readLimits, l.readTokenizer, l.readModules, l.readPrompts} {
		if err := read(folder); err != nil {
			return l, err
		}
	}
	return l, nil
}

// readLimits finds the bound on a text's tokens.
func (l *layout) readLimits(folder string) error {
	var bert struct {
		Positions int `json:"max_position_embeddings"`
	}
	var sentence struct {
		Tokens int `json:"max_seq_length"`
	}
	if err := errors.Join(read(folder, "config.json", &bert), read(folder, "sentence_bert_config.json", &sentence)); err != nil {
		return err
	}
	if bert.Positions > 0 {
		l.tokens = bert.Positions
	}
	if sentence.Tokens > 0 {
		l.tokens = min(l.tokens, sentence.Tokens)
	}
	if l.tokens < 3 {
		return fmt.Errorf("texts may have %d tokens: they need at least 3, for [CLS], a word and [SEP]", l.tokens)
	}
	return nil
}

func (l *layout) readTokenizer(folder string) error {
	name := "tokenizer.json"
	text, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		name = "vocab.txt"
		text, err = os.ReadFile(filepath.Join(folder, name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has neither tokenizer.json nor vocab.txt", folder)
	}
	if err != nil {
		return err
	}
	if name == "tokenizer.json" {
		l.tokenizer, err = wordpiece.Parse(text)
	} else {
		cased := struct {
			Lower *bool `json:"do_lower_case"`
		}{}
		if err := read(folder, "tokenizer_config.json", &cased); err != nil {
			return err
		}
		tokens := strings.Split(strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
		l.tokenizer, err = wordpiece.FromVocabulary(tokens, cased.Lower == nil || *cased.Lower)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, token := range []string{"[CLS]", "[SEP]"} {
		if _, known := l.tokenizer.ID(token); !known {
			return fmt.Errorf("%s: the token %s is missing", name, token)
		}
	}
	return nil
}

// readModules finds the pooling. It returns an error for modules that change vectors in other ways.
func (l *layout) readModules(folder string) error {
	var modules []struct {
		Path string `json:"path"`
		Type string `json:"type"`
	}
	if err := read(folder, "modules.json", &modules); err != nil {
		return err
	}
	path := "1_Pooling"
	for _, module := range modules {
		switch kind := module.Type[strings.LastIndex(module.Type, ".")+1:]; kind {
		case "Pooling":
			path = module.Path
		case "Transformer", "Normalize": // pool normalises always
		default:
			return fmt.Errorf("modules.json: a module of the kind %s is not supported: there may be Transformer, Pooling and Normalize", kind)
		}
	}
	// Older files have a truth value for each way of pooling, newer files name the way.
	var config struct {
		Mode   string `json:"pooling_mode"`
		Prompt *bool  `json:"include_prompt"`
		CLS    bool   `json:"pooling_mode_cls_token"`
		Mean   bool   `json:"pooling_mode_mean_tokens"`
		Max    bool   `json:"pooling_mode_max_tokens"`
		Square bool   `json:"pooling_mode_mean_sqrt_len_tokens"`
		Weight bool   `json:"pooling_mode_weightedmean_tokens"`
		Last   bool   `json:"pooling_mode_lasttoken"`
	}
	name := filepath.Join(path, "config.json")
	if err := read(folder, name, &config); err != nil {
		return err
	}
	switch {
	case config.Max || config.Square || config.Weight || config.Last || config.CLS && config.Mean:
		return fmt.Errorf("%s: this pooling is not supported: it must be the mean of the tokens, or the first token", name)
	case config.Prompt != nil && !*config.Prompt:
		return fmt.Errorf("%s: include_prompt=false is not supported", name)
	case config.Mode == string(first) || config.CLS:
		l.pooling = first
	case config.Mode != "" && config.Mode != string(mean):
		return fmt.Errorf("%s: pooling %q is not supported: it must be mean or cls", name, config.Mode)
	}
	return nil
}

// readPrompts finds the prefixes of documents and queries.
func (l *layout) readPrompts(folder string) error {
	var config struct {
		Prompts map[string]string `json:"prompts"`
		Default string            `json:"default_prompt_name"`
	}
	if err := read(folder, "config_sentence_transformers.json", &config); err != nil {
		return err
	}
	l.document, l.query = config.Prompts[config.Default], config.Prompts[config.Default]
	for _, name := range []string{"corpus", "passage", "document"} { // the last one found counts
		if prompt, named := config.Prompts[name]; named {
			l.document = prompt
		}
	}
	if prompt, named := config.Prompts["query"]; named {
		l.query = prompt
	}
	return nil
}

// read parses a JSON file of a folder. If the file is missing, read leaves into as it is.
func read(folder, name string, into any) error {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
