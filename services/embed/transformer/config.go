package transformer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// settings say how a model of sentence-transformers is used. They come from the files of its folder.
type settings struct {
	pooling  pooling
	tokens   int    // bound for a text, with [CLS] and [SEP]
	document string // prefix
	query    string // prefix
}

// pooling is the way to make one vector of the vectors of a text's tokens. It has the names of sentence-transformers.
type pooling string

const (
	mean  pooling = "mean"
	first pooling = "cls"
)

// readSettings reads the folder of a model that may have positions tokens. Missing files mean the defaults of
// sentence-transformers.
func readSettings(folder string, positions int) (settings, error) {
	s := settings{pooling: mean, tokens: positions}
	for _, read := range []func(string) error{s.readLimits, s.readModules, s.readPrompts} {
		if err := read(folder); err != nil {
			return s, err
		}
	}
	return s, nil
}

// readLimits finds the bound on a text's tokens. If the model names none, the tokenizer's counts.
func (s *settings) readLimits(folder string) error {
	var sentence struct {
		Tokens float64 `json:"max_seq_length"`
	}
	var tokenizer struct {
		Tokens float64 `json:"model_max_length"` // 1e30 if there is no bound
	}
	if err := errors.Join(read(folder, "sentence_bert_config.json", &sentence), read(folder, "tokenizer_config.json", &tokenizer)); err != nil {
		return err
	}
	limit := cmp.Or(sentence.Tokens, tokenizer.Tokens, float64(s.tokens))
	if !(limit >= 3) {
		return fmt.Errorf("texts may have %v tokens: they need at least 3, for [CLS], a word and [SEP]", limit)
	}
	s.tokens = int(min(limit, float64(s.tokens)))
	return nil
}

// readModules finds the pooling. It returns an error for modules that change vectors in other ways.
func (s *settings) readModules(folder string) error {
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
		s.pooling = first
	case config.Mode != "" && config.Mode != string(mean):
		return fmt.Errorf("%s: pooling %q is not supported: it must be mean or cls", name, config.Mode)
	}
	return nil
}

// readPrompts finds the prefixes of documents and queries.
func (s *settings) readPrompts(folder string) error {
	var config struct {
		Prompts map[string]string `json:"prompts"`
		Default string            `json:"default_prompt_name"`
	}
	if err := read(folder, "config_sentence_transformers.json", &config); err != nil {
		return err
	}
	s.document, s.query = config.Prompts[config.Default], config.Prompts[config.Default]
	for _, name := range []string{"corpus", "passage", "document"} { // the last one found counts
		if prompt, named := config.Prompts[name]; named {
			s.document = prompt
		}
	}
	if prompt, named := config.Prompts["query"]; named {
		s.query = prompt
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
