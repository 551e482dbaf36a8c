package curator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// asked is a request as the scripted server read it.
type asked struct {
	body   string
	header http.Header
	plain  bool // without a schema
	New    struct{ Text string }
	Older  []struct {
		Number int
		Text   string
	}
}

// number is that of the older memory with a text; 0 if it was not shown.
func (a asked) number(text string) int {
	for _, o := range a.Older {
		if o.Text == text {
			return o.Number
		}
	}
	return 0
}

// says is a complete answer.
func says(action string, target int, content string) string {
	answer, err := json.Marshal(map[string]any{"action": action, "target": target, "content": content})
	if err != nil {
		panic(err)
	}
	return completion(string(answer))
}

// completion is a response whose model said a text.
func completion(text string) string {
	body, err := json.Marshal(map[string]any{
		"object":  "chat.completion",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// server is a chat model that follows a script and remembers what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

// script answers the n-th request, from 0.
type script func(w http.ResponseWriter, r *http.Request, n int, a asked)

func newServer(t *testing.T, follow script) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a, err := read(body, r)
		if err != nil {
			t.Errorf("request: %v", err)
		}
		s.mu.Lock()
		n := len(s.asked)
		s.asked = append(s.asked, a)
		s.mu.Unlock()
		follow(w, r, n, a)
	}))
	t.Cleanup(s.Close)
	return s
}

// all returns the requests so far.
func (s *server) all() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

func read(body []byte, r *http.Request) (asked, error) {
	a := asked{body: string(body), header: r.Header}
	var request struct {
		Model          string
		Messages       []struct{ Role, Content string }
		ResponseFormat *struct {
			Type       string
			JSONSchema struct {
				Strict bool
				Schema struct {
					Properties struct {
						Action struct{ Enum []string }
						Target struct{ Enum []int }
					}
				}
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return a, err
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || request.Model != "scripted" {
		return a, fmt.Errorf("%s %s for model %q", r.Method, r.URL.Path, request.Model)
	}
	if m := request.Messages; len(m) != 2 || m[0].Role != "system" || m[1].Role != "user" {
		return a, fmt.Errorf("messages %+v", request.Messages)
	}
	if err := json.Unmarshal([]byte(request.Messages[1].Content), &a); err != nil {
		return a, err
	}
	if a.plain = request.ResponseFormat == nil; a.plain {
		return a, nil
	}
	format := request.ResponseFormat
	offered := format.JSONSchema.Schema.Properties
	if format.Type != "json_schema" || !format.JSONSchema.Strict || strings.Join(offered.Action.Enum, " ") != "add noop update supersede" || len(offered.Target.Enum) != len(a.Older)+1 {
		return a, fmt.Errorf("format %+v for %d memories", *format, len(a.Older))
	}
	return a, nil
}
