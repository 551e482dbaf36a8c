package rerank

import (
	"encoding/json"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// provider is the API of a provider.
type provider struct {
	url     string // of its own service; empty if there is none
	path    string
	key     string // the usual environment variable of its key
	request func(model, query string, texts []string) any
	results func(answer []byte) ([]result, error)
}

// result is the score of one text. A field that the server leaves out is nil.
type result struct {
	Index *int     `json:"index"`
	Score *float64 `json:"score"`
}

// object is a JSON object.
type object map[string]any

var providers = map[string]provider{
	"cohere": {
		url: "https://api.cohere.com", path: "/v2/rerank", key: "CO_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_n": len(texts)}
		},
		results: inResults,
	},
	"jina": {
		url: "https://api.jina.ai", path: "/v1/rerank", key: "JINA_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_n": len(texts), "return_documents": false}
		},
		results: inResults,
	},
	"voyage": {
		url: "https://api.voyageai.com", path: "/v1/rerank", key: "VOYAGE_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_k": len(texts), "truncation": true}
		},
		results: func(answer []byte) ([]result, error) {
			var a struct {
				Data []relevance `json:"data"`
			}
			err := json.Unmarshal(answer, &a)
			return fromRelevance(a.Data), err
		},
	},
	"tei": {
		path: "/rerank", key: "TEI_API_KEY",
		request: func(_, query string, texts []string) any {
			return object{"query": query, "texts": texts, "truncate": true}
		},
		results: func(answer []byte) (a []result, err error) {
			err = json.Unmarshal(answer, &a)
			return a, err
		},
	},
}

// relevance is a result in the wire format of Cohere, Jina and Voyage.
type relevance struct {
	Index *int     `json:"index"`
	Score *float64 `json:"relevance_score"`
}

// inResults reads the answers of Cohere and Jina.
func inResults(answer []byte) ([]result, error) {
	var a struct {
		Results []relevance `json:"results"`
	}
	err := json.Unmarshal(answer, &a)
	return fromRelevance(a.Results), err
}

func fromRelevance(in []relevance) []result {
	return slice.Map(in, func(r relevance) result { return result(r) })
}
