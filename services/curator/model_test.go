package curator_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/triskele/triskele/services/curator"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pace := curator.NewPace(2 * time.Second)
		at := func(want time.Duration) {
			t.Helper()
			if err := pace.Wait(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("after %v, want %v; %v", time.Since(start), want, err)
			}
		}
		at(0)
		at(2 * time.Second)
		pace.Hold(time.Minute)
		pace.Hold(time.Second) // shortens nothing
		at(62 * time.Second)
		at(64 * time.Second)
		time.Sleep(time.Hour)
		at(64*time.Second + time.Hour) // what was not used is not made up for
		at(66*time.Second + time.Hour)
		pace.Hold(2 * time.Minute)
		if err := pace.Wait(t.Context()); !errors.Is(err, queue.ErrPaused) || time.Since(start) != 66*time.Second+time.Hour {
			t.Errorf("a long hold: %v after %v", err, time.Since(start))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": 0, "2147483647": 10 * time.Minute,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
		now.AddDate(1, 0, 0).Format(http.TimeFormat):  10 * time.Minute,
	} {
		if got := curator.RetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

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
	f.Fuzz(func(t *testing.T, text string) {
		a, err := curator.ReadAnswer(text, r, older)
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
