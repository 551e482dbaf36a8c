package rerank

import "encoding/json"

// shape is how a provider is asked and how it answers.
type shape struct {
	url     string // of its own service; empty if there is none
	path    string
	key     string // the variable in which people have their key already
	request func(model, query string, texts []string) any
	results func(answer []byte) ([]result, error)
}

// result is the score of one text. What a server leaves out is nil.
type result struct {
	Index *int
	Score *float64
}

var shapes = map[string]shape{
	"cohere": {
		url: "https://api.cohere.com", path: "/v2/rerank", key: "CO_API_KEY",
		request: func(model, query string, texts []string) any {
			return struct {
				Model     string   `json:"model"`
				Query     string   `json:"query"`
				Documents []string `json:"documents"`
				Top       int      `json:"top_n"`
			}{model, query, texts, len(texts)}
		},
		results: inResults,
	},
	"jina": {
		url: "https://api.jina.ai", path: "/v1/rerank", key: "JINA_API_KEY",
		request: func(model, query string, texts []string) any {
			return struct {
				Model     string   `json:"model"`
				Query     string   `json:"query"`
				Documents []string `json:"documents"`
				Top       int      `json:"top_n"`
				Return    bool     `json:"return_documents"`
			}{model, query, texts, len(texts), false}
		},
		results: inResults,
	},
	"voyage": {
		url: "https://api.voyageai.com", path: "/v1/rerank", key: "VOYAGE_API_KEY",
		request: func(model, query string, texts []string) any {
			return struct {
				Model      string   `json:"model"`
				Query      string   `json:"query"`
				Documents  []string `json:"documents"`
				Top        int      `json:"top_k"`
				Truncation bool     `json:"truncation"`
			}{model, query, texts, len(texts), true}
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
			return struct {
				Query    string   `json:"query"`
				Texts    []string `json:"texts"`
				Truncate bool     `json:"truncate"`
			}{query, texts, true}
		},
		results: func(answer []byte) ([]result, error) {
			var a []struct {
				Index *int     `json:"index"`
				Score *float64 `json:"score"`
			}
			err := json.Unmarshal(answer, &a)
			out := make([]result, len(a))
			for i, r := range a {
				out[i] = result(r)
			}
			return out, err
		},
	},
}

// relevance is a result as Cohere, Jina and Voyage write it.
type relevance struct {
	Index *int     `json:"index"`
	Score *float64 `json:"relevance_score"`
}

func inResults(answer []byte) ([]result, error) {
	var a struct {
		Results []relevance `json:"results"`
	}
	err := json.Unmarshal(answer, &a)
	return fromRelevance(a.Results), err
}

func fromRelevance(in []relevance) []result {
	out := make([]result, len(in))
	for i, r := range in {
		out[i] = result(r)
	}
	return out
}
