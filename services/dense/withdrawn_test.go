package dense_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// sending is an embedder that sends texts to a server, where they are heard.
type sending struct {
	embed.Embedder
	before func() // the first texts are sent
	server *endpoint.Endpoint
}

func (s *sending) Model() embed.Model {
	m := s.Embedder.Model()
	m.Name, m.Local = "elsewhere", false
	return m
}

func (s *sending) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	if _, _, err := s.server.Post(ctx, "", []byte(strings.Join(texts, "\n")), 100); err != nil {
		return nil, err
	}
	return s.Embedder.EmbedDocuments(ctx, texts)
}

// TestReembedAsksBeforeItSends: a memory that turns sensitive between being read and being sent is not sent, and the rest is.
func TestReembedAsksBeforeItSends(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var mu sync.Mutex
		var heard strings.Builder
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = io.Copy(&heard, r.Body) // ends early if the text is withheld
		}))
		t.Cleanup(server.Close)
		e, err := endpoint.New(server.URL, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "plain", "the cello lesson", nil)
		canary := c.add(t, f, s, "canary", "the safe opens with 4711", nil)
		reembed(t, f, &sending{Embedder: embed.NewHashed(), server: e, before: func() {
			if _, err := f.Memory.Update(t.Context(), "ns", canary.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
				t.Error(err)
			}
		}})
		if got := heard.String(); strings.Contains(got, "4711") || !strings.Contains(got, "cello") {
			t.Errorf("the server heard %q", got)
		}
	})
}
