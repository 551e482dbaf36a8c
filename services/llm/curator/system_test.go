package curator_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// patience is how long a test waits for what must happen in the end.
const patience = 2 * time.Minute

// onBoth runs a test on each engine.
func onBoth(t *testing.T, test func(*testing.T, standalone.Config)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, standalone.Config{Postgres: pgtest.New(t)})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, onFile(t))
	})
}

func onFile(t *testing.T) standalone.Config {
	return standalone.Config{SQLite: filepath.Join(t.TempDir(), "test.db")}
}

// fast is a curator that asks a server as soon as it can.
func fast(s *server) curator.Config {
	return curator.Config{URL: s.URL, Model: "scripted", PerMinute: 60_000, Timeout: 90 * time.Second}
}

// system is all services, with their log.
type system struct {
	*standalone.System
	t        *testing.T
	memories triskelev1.MemoryServiceClient
	log      *log
}

type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var _ io.Writer = (*log)(nil)

func start(t *testing.T, config standalone.Config) *system {
	t.Helper()
	config.Gateway = gateway.DefaultConfig()
	if config.Embedder == nil {
		config.Embedder = embed.NewHashed()
	}
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, log: &log{}}
	s.System, err = standalone.Start(context.Background(), config, process, slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.memories = triskelev1.NewMemoryServiceClient(s.Conn)
	return s
}

// close may be called twice.
func (s *system) close() {
	if s.System == nil {
		return
	}
	if err := s.System.Close(); err != nil {
		s.t.Error(err)
	}
	s.System = nil
}

// remember stores a text in a namespace, changed by edit if that is not nil, and returns the memory.
func (s *system) remember(namespace, content string, edit func(*triskelev1.Memory)) *triskelev1.Memory {
	s.t.Helper()
	m := &triskelev1.Memory{Namespace: namespace, Content: content}
	if edit != nil {
		edit(m)
	}
	resp, err := s.memories.Remember(context.Background(), &triskelev1.RememberRequest{Memory: m})
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetMemory()
}

func (s *system) get(m *triskelev1.Memory) *triskelev1.Memory {
	s.t.Helper()
	resp, err := s.memories.Get(context.Background(), &triskelev1.GetRequest{Namespace: m.GetNamespace(), Ids: []string{m.GetId()}})
	if err != nil || len(resp.GetMemories()) != 1 {
		s.t.Fatalf("get: %v, %v", resp, err)
	}
	return resp.GetMemories()[0]
}

// decisions returns what was decided with m as the new memory.
func (s *system) decisions(m *triskelev1.Memory) []*triskelev1.Decision {
	s.t.Helper()
	resp, err := s.memories.ListDecisions(context.Background(), &triskelev1.ListDecisionsRequest{Namespace: m.GetNamespace(), MemoryId: m.GetId()})
	if err != nil {
		s.t.Fatal(err)
	}
	var about []*triskelev1.Decision
	for _, d := range resp.GetDecisions() {
		if d.GetMemoryId() == m.GetId() {
			about = append(about, d)
		}
	}
	return about
}

// decided waits for the first decision about a memory.
func (s *system) decided(m *triskelev1.Memory) *triskelev1.Decision {
	s.t.Helper()
	var d *triskelev1.Decision
	s.until("decision about "+m.GetContent(), func() bool {
		about := s.decisions(m)
		if len(about) > 0 {
			d = about[0]
		}
		return len(about) > 0
	})
	return d
}

// until waits for something to be true.
func (s *system) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("no %s; log:\n%s", what, s.log)
		}
	}
}
