package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// kind tells what is embedded: models that know it embed questions and answers differently.
type kind int

const (
	document kind = iota
	query
)

// shape is how a provider is asked and how it answers.
type shape struct {
	url      string // of its own service; empty if there is none
	path     string
	texts    int // per request, at most
	bytes    int // of all texts of a request: no tokeniser makes more tokens than bytes, and providers bound tokens
	maxText  int // bytes of one text; 0 if the server cuts by itself
	shortens bool
	request  func(c Config, kind kind, texts []string) any
	read     func(answer []byte, texts int) (embedded, error)
}

// embedded is what a server answered. tokens is 0 if it did not say what it counted.
type embedded struct {
	vectors [][]float32
	tokens  int
}

var shapes = map[string]shape{
	"openai": {
		url: "https://api.openai.com", path: "/v1/embeddings", texts: 2048, bytes: 300_000, maxText: 24_000, shortens: true,
		request: func(c Config, _ kind, texts []string) any {
			return struct {
				Input      []string `json:"input"`
				Model      string   `json:"model"`
				Format     string   `json:"encoding_format"`
				Dimensions int      `json:"dimensions,omitempty"`
			}{texts, c.Model, "float", c.shortened()}
		},
		read: indexed,
	},
	"voyage": {
		url: "https://api.voyageai.com", path: "/v1/embeddings", texts: 1000, bytes: 120_000, shortens: true,
		request: func(c Config, kind kind, texts []string) any {
			return struct {
				Input      []string `json:"input"`
				Model      string   `json:"model"`
				Type       string   `json:"input_type"`
				Truncation bool     `json:"truncation"`
				Dimensions int      `json:"output_dimension,omitempty"`
			}{texts, c.Model, [...]string{document: "document", query: "query"}[kind], true, c.shortened()}
		},
		read: indexed,
	},
	"cohere": {
		url: "https://api.cohere.com", path: "/v2/embed", texts: 96, bytes: 1 << 20, shortens: true,
		request: func(c Config, kind kind, texts []string) any {
			return struct {
				Model      string   `json:"model"`
				Texts      []string `json:"texts"`
				Type       string   `json:"input_type"`
				Types      []string `json:"embedding_types"`
				Truncate   string   `json:"truncate"`
				Dimensions int      `json:"output_dimension,omitempty"`
			}{c.Model, texts, [...]string{document: "search_document", query: "search_query"}[kind], []string{"float"}, "END", c.shortened()}
		},
		read: func(answer []byte, _ int) (embedded, error) {
			var body struct {
				Embeddings struct {
					Float []vector `json:"float"`
				} `json:"embeddings"`
				Meta struct {
					Billed struct {
						Tokens int `json:"input_tokens"`
					} `json:"billed_units"`
				} `json:"meta"`
			}
			if err := json.Unmarshal(answer, &body); err != nil {
				return embedded{}, notJSON(err)
			}
			return embedded{plain(body.Embeddings.Float), body.Meta.Billed.Tokens}, nil
		},
	},
	"tei": {
		path: "/embed", texts: 32, bytes: 1 << 20,
		request: func(_ Config, _ kind, texts []string) any {
			return struct {
				Inputs    []string `json:"inputs"`
				Normalize bool     `json:"normalize"`
				Truncate  bool     `json:"truncate"`
			}{texts, true, true}
		},
		read: func(answer []byte, _ int) (embedded, error) {
			var body []vector
			if err := json.Unmarshal(answer, &body); err != nil {
				return embedded{}, notJSON(err)
			}
			return embedded{vectors: plain(body)}, nil // it counts tokens in a header
		},
	},
}

// shortened is the number of dimensions to ask for; 0 means not to ask.
func (c Config) shortened() int {
	if !c.Shorten {
		return 0
	}
	return c.Dimensions
}

// indexed reads OpenAI's answer, in which each vector says which text it belongs to.
func indexed(answer []byte, texts int) (embedded, error) {
	var body struct {
		Data []struct {
			Index     int    `json:"index"`
			Embedding vector `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Tokens int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return embedded{}, notJSON(err)
	}
	if len(body.Data) != texts {
		return embedded{}, malformed("%d vectors for %d texts", len(body.Data), texts)
	}
	vectors := make([][]float32, texts)
	for _, item := range body.Data {
		if item.Index < 0 || item.Index >= texts || vectors[item.Index] != nil {
			return embedded{}, malformed("index %d is out of range or there twice", item.Index)
		}
		vectors[item.Index] = item.Embedding
	}
	return embedded{vectors, body.Usage.Tokens}, nil
}

// vector refuses null, which encoding/json would take for 0 and which servers write for NaN.
type vector []float32

// UnmarshalJSON implements json.Unmarshaler.
func (v *vector) UnmarshalJSON(text []byte) error {
	if bytes.Contains(text, []byte("null")) {
		return malformed("a vector with components that are null")
	}
	return json.Unmarshal(text, (*[]float32)(v))
}

func plain(vectors []vector) [][]float32 {
	out := make([][]float32, len(vectors))
	for i, v := range vectors {
		out[i] = v
	}
	return out
}

// malformedError says that a server answered 200 with something that is not the vectors asked for. Asking again would
// not help.
type malformedError struct{ what string }

func (e *malformedError) Error() string { return e.what }

func malformed(format string, args ...any) error {
	return &malformedError{fmt.Sprintf(format, args...)}
}

// notJSON says where an answer stopped making sense, without what stands there.
func notJSON(err error) error {
	switch err := err.(type) {
	case *malformedError:
		return err
	case *json.SyntaxError:
		return malformed("the answer is not JSON from byte %d on", err.Offset)
	case *json.UnmarshalTypeError:
		return malformed("the answer has a %s at byte %d, where %s belongs", err.Value, err.Offset, err.Type)
	}
	return malformed("the answer is not what was asked for")
}
