package chat_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/store/queue"
)

func TestRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pace := chat.NewRateLimiter(2 * time.Second)
		at := func(want time.Duration) {
			t.Helper()
			if err := pace.Wait(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("after %v, want %v; %v", time.Since(start), want, err)
			}
		}
		at(0)
		at(2 * time.Second)
		pace.Delay(time.Minute)
		pace.Delay(time.Second) // shortens nothing
		at(62 * time.Second)
		at(64 * time.Second)
		time.Sleep(time.Hour)
		at(64*time.Second + time.Hour) // what was not used is not made up for
		at(66*time.Second + time.Hour)
		pace.Delay(2 * time.Minute)
		if err := pace.Wait(t.Context()); !errors.Is(err, queue.ErrPaused) || time.Since(start) != 66*time.Second+time.Hour {
			t.Errorf("a long hold: %v after %v", err, time.Since(start))
		}
	})
}

// Nothing is sent while it cannot be told whether that may be, and the server is not blamed.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(s.Close)
	m, err := chat.New(chat.Config{For: "the curator", URL: s.URL, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := endpoint.WithCheck(t.Context(), func(context.Context) (bool, error) { return false, errors.New("the database is away") })
	const want = "the curator's model: not asked, because it cannot be told whether the text may be sent"
	if _, err := m.Ask(ctx, chat.Question{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	const want = `{"a":1}`
	for _, text := range []string{
		want, "\n" + want + "\n", "I think this.\n" + want, "Here it is:\n```json\n" + want + "\n```", "```json\n" + want + "\n```\nI chose so because it is one.",
		"```JSON\n" + want + "```", "<think>{x} or {\"a\":2}</think> b</think>" + want, "{ is a brace. " + want,
	} {
		if got := strings.TrimSpace(chat.Object(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	const tag = `{"content":"The tag </think> ends a {thought}."}`
	for _, text := range []string{tag, "Here it is:\n```json\n" + tag + "\n```"} {
		if got := chat.Object(text); got != tag {
			t.Errorf("%q: got %q, want %q", text, got, tag)
		}
	}
	// A thought, a part of an object, and one of two answers are no answer.
	for _, text := range []string{`<think>{"a":1}</think>I cannot.`, `{"a":1} or {"a":`, `{"a":1} {"a":2}`, "no", ""} {
		if got := chat.Object(text); got != text {
			t.Errorf("%q: got %q, want it as it is", text, got)
		}
	}
	start := time.Now()
	chat.Object(strings.Repeat(`{"a":`, 200_000))
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("nested objects without an end: took %v", took)
	}
}
