// Package page_test runs the gateway's page for operators as `triskele up` does, on the demo's memories.
package page_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/traces/recent"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/demo"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// system is everything in this process, with a page.
type system struct {
	*client.Client
	url     string
	ring    *recent.Ring
	slow    atomic.Int64 // nanoseconds by which the dense leg is held up
	t       *testing.T
	queries []demo.Query
}

func start(t *testing.T) *system { return startWith(t, auth.Listener{}, auth.Access{}) }

// startWith has the page know whom to let in as a gateway with these flags does.
func startWith(t *testing.T, door auth.Listener, access auth.Access) *system {
	t.Helper()
	s := &system{ring: recent.New(), t: t}
	process, err := telemetry.Start(t.Context(), telemetry.Scraped)
	if err != nil {
		t.Fatal(err)
	}
	embedder, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.DefaultConfig()
	config.Recent = s.ring
	quiet := slog.New(slog.DiscardHandler)
	running, err := standalone.Start(t.Context(), standalone.Config{
		SQLite: filepath.Join(t.TempDir(), "page.db"), Embedder: embedder, Gateway: config,
		Delay: func(leg string) time.Duration {
			if leg != "dense" {
				return 0
			}
			return time.Duration(s.slow.Load())
		},
	}, process, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
	var log bytes.Buffer
	operators, err := admin.Listen(admin.Flags{Address: "127.0.0.1:0"}, process.Metrics(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	door.Listen, door.TLS.Reload = "127.0.0.1:0", time.Second
	outer, listener, err := door.Open(access, process.Service("fuser"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	running.Register(outer)
	go func() { _ = running.Serve(outer, listener) }() // until the system is closed
	page.Open(t.Context(), operators.ServeMux, s.ring, outer, process.Service("fuser"))
	t.Cleanup(operators.Start(t.Context()))
	_, address, _ := strings.Cut(log.String(), "address=")
	s.url, s.Client = "http://"+strings.TrimSpace(address), client.New(running.Conn)

	memories, err := demo.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), memories); err != nil {
		t.Fatal(err)
	}
	if s.queries, err = demo.Queries(); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitIndexed(t.Context(), demo.Namespace, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// recall asks the demo's questions, n in all.
func (s *system) recall(n int, budget time.Duration) {
	s.t.Helper()
	for i := range n {
		_, err := s.Recalls.Recall(s.t.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{demo.Namespace}, Query: s.queries[i%len(s.queries)].Text, Budget: durationpb.New(budget),
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// get returns what the page's server answers.
func (s *system) send(ctx context.Context, method, path, body string, edit func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(text)
}

func question(query string, more string) string {
	return fmt.Sprintf(`{"namespaces": [%q], "query": %q, "budget": "5s"%s}`, demo.Namespace, query, more)
}
