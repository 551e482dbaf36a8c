package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		address, key string
		refused      bool
		local        bool
	}{
		"this machine":          {address: "http://127.0.0.1:8080/", key: "canary", local: true},
		"this machine, by name": {address: "http://localhost/v1", key: "canary", local: true},
		"this machine, IPv6":    {address: "http://[::1]:80", key: "canary", local: true},
		"another":               {address: "http://192.0.2.1"},
		"another, with a key":   {address: "http://192.0.2.1", key: "canary", refused: true},
		"another, encrypted":    {address: "https://example.org", key: "canary"},
		"a name that begins so": {address: "http://localhost.example.org", key: "canary", refused: true},
		"nothing":               {refused: true},
		"no scheme":             {address: "127.0.0.1:1", refused: true},
		"no web":                {address: "file:///etc", refused: true},
		"a password":            {address: "http://me:canary@127.0.0.1", refused: true},
		"a query":               {address: "http://127.0.0.1/?key=canary", refused: true},
	} {
		e, err := New(x.address, x.key, 0)
		if (err != nil) != x.refused || err == nil && e.Local() != x.local {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

func TestPost(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	t.Cleanup(other.Close)
	says := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", other.URL)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, x := range map[string]struct {
		handler http.HandlerFunc
		answer  string
		code    int   // of a StatusError
		err     error // another error
	}{
		"an answer":       {handler: says(200, "12345"), answer: "12345"},
		"a byte too long": {handler: says(200, "123456"), err: ErrTooLong},
		"refused":         {handler: says(400, "echo of the text"), code: 400},
		"overloaded":      {handler: says(503, ""), code: 503},
		"a redirect":      {handler: says(307, ""), code: 307},
		"given up":        {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, err: context.Canceled},
		"cut off": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "12")
		}, err: io.ErrUnexpectedEOF},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type question struct {
			path, body string
			header     http.Header
		}
		asked := make(chan question, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked <- question{r.URL.Path, string(body), r.Header}
			if x.err == context.Canceled {
				cancel()
			}
			x.handler(w, r)
		}))
		defer server.Close()
		e, err := New(server.URL+"/base/", "secret", 3)
		if err != nil {
			t.Fatal(err)
		}
		answer, header, err := e.Post(ctx, "/v1/ask", []byte(`{"text":"what"}`), 5)
		var status *StatusError
		if err == nil && header.Get("Retry-After") != "7" {
			t.Errorf("%s: %v", name, header)
		}
		if string(answer) != x.answer || errors.As(err, &status) != (x.code != 0) || x.err != nil && !errors.Is(err, x.err) || (err == nil) != (x.answer != "") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		if status != nil && (status.Code != x.code || status.After != 7*time.Second) {
			t.Errorf("%s: %+v", name, status)
		}
		if err != nil && (strings.Contains(err.Error(), "echo") || strings.Contains(err.Error(), "http://")) {
			t.Errorf("%s: the error says too much: %v", name, err)
		}
		if q := <-asked; q.path != "/base/v1/ask" || q.body != `{"text":"what"}` || q.header.Get("Authorization") != "Bearer secret" || q.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: it was asked %+v", name, q)
		}
	}
	if elsewhere.Load() {
		t.Error("a redirect was followed")
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	e, err := New(gone.URL, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Post(t.Context(), "/", nil, 5); err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("a server that is gone: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
