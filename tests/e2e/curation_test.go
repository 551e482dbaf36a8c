package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestKilledWhileCurating kills the memory service right before and right after the curator's model answers, over and
// over: each memory is judged once, and what it says gets into the older one once.
func TestKilledWhileCurating(t *testing.T) {
	t.Parallel()
	const base = "The Kestrel backup runs on heron-db-1."
	additions := []string{"It starts at two.", "It takes an hour.", "Ines looks after it.", "It is encrypted.", "Its key is in the vault.", "It is tested in May."}
	var mu sync.Mutex
	asked := map[string]int{}
	judging := make(chan string, 100) // what is being judged, when the model is about to answer
	answer := make(chan struct{})     // lets it
	done := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Messages []struct{ Content string } }
		var question struct {
			New   struct{ Text string }
			Older []struct {
				Number int
				Text   string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return
		}
		if err := json.Unmarshal([]byte(request.Messages[len(request.Messages)-1].Content), &question); err != nil {
			t.Errorf("question: %v", err)
			return
		}
		mu.Lock()
		asked[question.New.Text]++
		mu.Unlock()
		if len(question.Older) != 1 || !strings.HasPrefix(question.Older[0].Text, base) {
			t.Errorf("judged against %+v", question.Older)
			return
		}
		judging <- question.New.Text
		select {
		case <-answer:
		case <-done:
		}
		verdict, err := json.Marshal(map[string]any{"action": "update", "target": 1, "content": question.Older[0].Text + " " + question.New.Text})
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": string(verdict)}}}})
	}))
	defer model.Close()
	defer close(done)

	s := startWith(t, setup{args: map[string][]string{"memory": {"--curator-url", model.URL, "--curator-model", "scripted", "--curator-per-minute", "60000"}}})
	db := s.sql()
	restart := func() {
		// The dead process's lease would end in 15 seconds.
		if _, err := db.Exec(t.Context(), `UPDATE memory.index_queue SET not_before = now() WHERE index_name = 'curation'`); err != nil {
			t.Fatal(err)
		}
		s.run("memory")
		s.awaitServing("memory")
	}
	store := func(content string) (m *triskelev1.Memory) {
		s.eventually("the memory service is used again", func() bool {
			resp, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: content, IdempotencyKey: content}})
			m = resp.GetMemory()
			return err == nil
		})
		return m
	}
	decisions := func(m *triskelev1.Memory) (about []*triskelev1.Decision) {
		s.eventually("a decision about "+m.GetContent(), func() bool {
			resp, err := s.memory.ListDecisions(t.Context(), &triskelev1.ListDecisionsRequest{Namespace: "n"})
			about = nil
			for _, d := range resp.GetDecisions() {
				if d.GetMemoryId() == m.GetId() {
					about = append(about, d)
				}
			}
			return err == nil && len(about) > 0
		})
		return about
	}
	older := store(base)
	decisions(older)
	var last *triskelev1.Decision
	for i, text := range additions {
		m := store(text)
		if got := <-judging; got != text {
			t.Fatalf("judging %q, want %q", got, text)
		}
		if i%2 == 0 { // before it answers
			s.signal("memory", syscall.SIGKILL)
			answer <- struct{}{}
		} else { // as it answers: sometimes before the verdict is carried out, sometimes after
			answer <- struct{}{}
			s.signal("memory", syscall.SIGKILL)
		}
		restart()
		ended := make(chan struct{})
		go func() { // another attempt, if there has to be one, is left alone
			for {
				select {
				case answer <- struct{}{}:
				case <-ended:
					return
				}
			}
		}()
		about := decisions(m)
		close(ended)
		for len(judging) > 0 {
			<-judging
		}
		if len(about) != 1 {
			t.Errorf("%d decisions about %q", len(about), text)
		}
		last = about[0]
	}
	now := func() string {
		resp, err := s.memory.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{older.GetId()}})
		if err != nil || len(resp.GetMemories()) != 1 {
			t.Fatalf("get: %v, %v", resp, err)
		}
		return resp.GetMemories()[0].GetContent()
	}
	if want := base + " " + strings.Join(additions, " "); now() != want {
		t.Errorf("the older memory says %q, want %q", now(), want)
	}
	mu.Lock()
	t.Logf("requests by memory: %v", asked)
	for text, n := range asked {
		if n > 2 {
			t.Errorf("%q was judged %d times", text, n)
		}
	}
	mu.Unlock()
	if _, err := s.memory.RevertDecision(t.Context(), &triskelev1.RevertDecisionRequest{Namespace: "n", Id: last.GetId()}); err != nil {
		t.Fatal(err)
	}
	if want := base + " " + strings.Join(additions[:len(additions)-1], " "); now() != want {
		t.Errorf("after a reversal the older memory says %q, want %q", now(), want)
	}
	// Forgetting one takes its text out of the older one, and with it what was written upon it.
	first := fmt.Sprintf("%s %s", base, additions[0])
	all, err := s.memory.List(t.Context(), &triskelev1.ListRequest{Namespace: "n", Filter: &triskelev1.Filter{IncludeSuperseded: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all.GetMemories() {
		if m.GetContent() == additions[1] {
			if _, err := s.memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "n", Ids: []string{m.GetId()}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if now() != first {
		t.Errorf("after one was forgotten the older memory says %q, want %q", now(), first)
	}
}
