package remote

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// kind tells documents and queries apart. Many models embed them differently.
type kind int

const (
	document kind = iota
	query
)

// provider is the API of an embedding provider.
type provider struct {
	url      string // of its own service; empty if it has none
	path     string
	texts    int  // bound on the texts of a request
	bytes    int  // bound on all texts of a request: providers bound tokens, and a token has at least one byte
	maxText  int  // bound on the bytes of one text; 0 if the server cuts texts itself
	tokens   int  // a little below the bound on the tokens of one text; 0 if the server cuts texts itself
	shortens bool // the server can shorten vectors
	request  func(c Config, kind kind, texts []string) any
	read     func(answer []byte) (response, error)
}

// response is a server's answer. tokens is 0 if the answer does not tell it.
type response struct {
	vectors [][]float32
	tokens  int
}

// object is a JSON object.
type object map[string]any

var providers = map[string]provider{
	"openai": {
		url: "https://api.openai.com", path: "/v1/embeddings", texts: 2048, bytes: 300_000, maxText: 24_000, tokens: 8000, shortens: true,
		request: func(c Config, _ kind, texts []string) any {
			return c.shortened("dimensions", object{"input": texts, "model": c.Model, "encoding_format": "float"})
		},
		read: indexed,
	},
	"voyage": {
		url: "https://api.voyageai.com", path: "/v1/embeddings", texts: 1000, bytes: 120_000, shortens: true,
		request: func(c Config, kind kind, texts []string) any {
			input := [...]string{document: "document", query: "query"}[kind]
			return c.shortened("output_dimension", object{"input": texts, "model": c.Model, "input_type": input, "truncation": true})
		},
		read: indexed,
	},
	"cohere": {
		url: "https://api.cohere.com", path: "/v2/embed", texts: 96, bytes: 1 << 20, shortens: true,
		request: func(c Config, kind kind, texts []string) any {
			input := [...]string{document: "search_document", query: "search_query"}[kind]
			return c.shortened("output_dimension", object{
				"model": c.Model, "texts": texts, "input_type": input, "embedding_types": []string{"float"}, "truncate": "END",
			})
		},
		read: func(answer []byte) (response, error) {
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
			err := json.Unmarshal(answer, &body)
			return response{plain(body.Embeddings.Float), body.Meta.Billed.Tokens}, err
		},
	},
	"tei": {
		path: "/embed", texts: 32, bytes: 1 << 20,
		request: func(_ Config, _ kind, texts []string) any {
			return object{"inputs": texts, "normalize": true, "truncate": true}
		},
		read: func(answer []byte) (response, error) {
			var body []vector
			err := json.Unmarshal(answer, &body)
			return response{vectors: plain(body)}, err // its tokens are in a header
		},
	},
}

// shortened adds the option by which a server shortens vectors, if it is to.
func (c Config) shortened(option string, body object) object {
	if c.Shorten {
		body[option] = c.Dimensions
	}
	return body
}

// indexed reads an answer of OpenAI's API, whose vectors have the indexes of their texts.
func indexed(answer []byte) (response, error) {
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
		return response{}, err
	}
	vectors := make([][]float32, len(body.Data))
	for _, item := range body.Data {
		if item.Index < 0 || item.Index >= len(vectors) || vectors[item.Index] != nil {
			return response{}, malformed("index %d is out of range or occurs twice", item.Index)
		}
		vectors[item.Index] = item.Embedding
	}
	return response{vectors, body.Usage.Tokens}, nil
}

// vector refuses null, which some servers write for NaN. encoding/json would read it as 0.
type vector []float32

// UnmarshalJSON implements json.Unmarshaler.
func (v *vector) UnmarshalJSON(text []byte) error {
	if bytes.Contains(text, []byte("null")) {
		return malformed("a vector has components that are null")
	}
	return json.Unmarshal(text, (*[]float32)(v))
}

func plain(vectors []vector) [][]float32 {
	return slice.Map(vectors, func(v vector) []float32 { return v })
}

// malformedError is the error of an answer with status 200 without the vectors asked for. A retry would not help.
type malformedError struct{ what string }

func (e *malformedError) Error() string { return e.what }

func malformed(format string, args ...any) error {
	return &malformedError{fmt.Sprintf(format, args...)}
}

// notJSON returns the error of an answer that cannot be decoded. It has the position, not the text there.
func notJSON(err error) error {
	switch err := err.(type) {
	case *malformedError:
		return err
	case *json.SyntaxError:
		return malformed("the answer is not JSON from byte %d on", err.Offset)
	case *json.UnmarshalTypeError:
		return malformed("the answer has a %s at byte %d instead of a %s", err.Value, err.Offset, err.Type)
	}
	return malformed("the answer cannot be decoded")
}
