package curator_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
)

// FuzzReadAnswer has models say anything: what is accepted chooses among what was offered, and is bounded.
func FuzzReadAnswer(f *testing.F) {
	for _, text := range []string{
		`{"action": "add", "target": 0, "content": ""}`, `{"action": "update", "target": 2, "content": "x"}`,
		"```json\n{\"action\": \"noop\", \"target\": 1}\n```", `<think>{</think>{"action": "supersede", "target": 2}`,
		`{"action": "update", "target": 1, "content": "` + strings.Repeat("y", 300) + `"}`, `{"action": "ADD"}`, `[1]`, "null",
	} {
		f.Add(text)
	}
	r, older := record.Record{Content: "new"}, []record.Record{{Content: "first"}, {Content: "second"}}
	model, err := chat.New(chat.Config{For: "the curator", URL: "http://127.0.0.1:1", Model: "m"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := curator.ReadAnswer(model, text, r, older)
		if err != nil {
			for _, word := range strings.Fields(text) {
				if len(word) > 20 && strings.Contains(err.Error(), word) {
					t.Errorf("the error quotes the model: %v", err)
				}
			}
			return
		}
		switch a.Action {
		case memory.ActionAdd:
			return
		case memory.ActionUpdate:
			if len(a.Content) > len("new")+len("second")+curator.Slack || strings.TrimSpace(a.Content) == "" || !utf8.ValidString(a.Content) || strings.ContainsRune(a.Content, 0) {
				t.Errorf("text %q", a.Content)
			}
		case memory.ActionNoop, memory.ActionSupersede:
		default:
			t.Errorf("action %q", a.Action)
		}
		if a.Target < 1 || a.Target > 2 {
			t.Errorf("target %d", a.Target)
		}
	})
}
