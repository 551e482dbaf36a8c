package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// script is a server that speaks the shapes of a chat model, which judges and extracts, of an embedding model and of a reranker. It keeps
// every byte it is sent.
type script struct {
	*httptest.Server
	mu       sync.Mutex
	received map[string][]string // whole requests, by path
	fails    bool
	judge    func(older int) (action string, target int)
	before   func(request string) // is called before a request is answered
}

// dimensions of the vectors it makes.
const dimensions = 16

// newScript starts a server whose chat model adds everything, until the test ends.
func newScript(t *testing.T) *script {
	s := &script{received: map[string][]string{}, judge: func(int) (string, int) { return "add", 0 }, before: func(string) {}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// set changes how it answers.
func (s *script) set(change func(*script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// requests returns what came to a path.
func (s *script) requests(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[path]
}

// ServeHTTP answers like a model, or fails like a careless one: with an error that quotes the request.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := httputil.DumpRequest(r, true)
	if err != nil {
		return // the caller is gone
	}
	s.mu.Lock()
	s.received[r.URL.Path] = append(s.received[r.URL.Path], string(request))
	fails, judge, before := s.fails, s.judge, s.before
	s.mu.Unlock()
	before(string(request))
	if fails {
		http.Error(w, "cannot cope with "+string(request), http.StatusInternalServerError)
		return
	}
	var body struct {
		Messages []struct{ Content string }
		Input    []string
		Texts    []string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/v1/embeddings" {
		data := make([]map[string]any, len(body.Input))
		for i, text := range body.Input {
			data[i] = map[string]any{"index": i, "embedding": letters(text)}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]int{"total_tokens": len(data)}})
		return
	}
	if r.URL.Path == "/rerank" {
		scores := make([]map[string]any, len(body.Texts))
		for i, text := range body.Texts {
			scores[i] = map[string]any{"index": i, "score": len(text)}
		}
		_ = json.NewEncoder(w).Encode(scores)
		return
	}
	var question struct {
		New      struct{ Text string }
		Older    []struct{ Text string }
		Memories []struct{ Number int }
	}
	if len(body.Messages) == 0 || json.Unmarshal([]byte(body.Messages[len(body.Messages)-1].Content), &question) != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	if len(question.Memories) > 0 {
		triples := make([]map[string]any, len(question.Memories))
		for i, m := range question.Memories {
			triples[i] = map[string]any{"memory": m.Number, "subject": "Kestrel", "relation": "has", "object": "vault", "single": false}
		}
		answer, _ := json.Marshal(map[string]any{"triples": triples})
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": string(answer)}}}})
		return
	}
	action, target := judge(len(question.Older))
	content := ""
	if action == "update" {
		content = question.Older[target-1].Text + " " + question.New.Text
	}
	verdict := fmt.Sprintf(`{"action": %q, "target": %d, "content": %s}`, action, target, quoted(content))
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": verdict}}}})
}

func quoted(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return out
}

// letters is a vector that counts letters: texts with the same ones are alike.
func letters(text string) []float32 {
	vector := make([]float32, dimensions)
	for _, b := range []byte(strings.ToLower(text)) {
		vector[b%dimensions]++
	}
	vector[0]++
	return vector
}
