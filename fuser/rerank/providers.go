package rerank

import "encoding/json"

// provider is the API of a provider.
type provider struct {
	url     string // of its own service; empty if there is none
	path    string
	key     string // the usual environment variable of its key
	request func(model, query string, texts []string) any
	results func(answer []byte) ([]result, error)
}

// result is the score of one text, which TEI calls score and the others relevance_score. A field that the server leaves out is nil.
type result struct {
	Index     *int     `json:"index"`
	Score     *float64 `json:"score"`
	Relevance *float64 `json:"relevance_score"`
}

// object is a JSON object.
type object map[string]any

var providers = map[string]provider{
	"cohere": {
		url: "https://api.cohere.com", path: "/v2/rerank", key: "CO_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_n": len(texts)}
		},
		results: listed,
	},
	"jina": {
		url: "https://api.jina.ai", path: "/v1/rerank", key: "JINA_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_n": len(texts), "return_documents": false}
		},
		results: listed,
	},
	"voyage": {
		url: "https://api.voyageai.com", path: "/v1/rerank", key: "VOYAGE_API_KEY",
		request: func(model, query string, texts []string) any {
			return object{"model": model, "query": query, "documents": texts, "top_k": len(texts), "truncation": true}
		},
		results: listed,
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

// listed reads the answers of Cohere and Jina, which call the list results, and of Voyage, which calls it data.
func listed(answer []byte) ([]result, error) {
	var a struct {
		Results []result `json:"results"`
		Data    []result `json:"data"`
	}
	err := json.Unmarshal(answer, &a)
	return append(a.Results, a.Data...), err
}
