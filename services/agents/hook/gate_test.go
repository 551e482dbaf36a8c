package hook_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/hook"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// small is what people say to agents all day, about nothing that is remembered.
var small = []string{
	"yes", "go on", "thanks, that works", "commit this", "continue", "undo the last change", "try again with a smaller batch size",
	"please refactor this function so that it takes an options struct", "write a function that reverses a linked list in Rust",
	"what does this error mean: undefined: foo", "add a docstring to every public method in utils.py", "explain how a hash map works",
	"rename the variable x to count everywhere", "make the button blue and centre it", "translate the readme to Spanish",
	"what is the capital of Australia?", "write me a limerick about a cat", "can you look at the logs and tell me what is going on",
}

// lines reads a file with a JSON object a line.
func lines(t *testing.T, name string, each func([]byte)) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "wiring", "golden", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		each(scanner.Bytes())
	}
}

// TestGate says how often something is said that should be, and something that should not: prompts that memories of the small
// corpus answer, the same prompts where nobody knows, and small talk.
func TestGate(t *testing.T) {
	embedder, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.DefaultConfig()
	config.Rerank = rerank.Default()
	system, err := standalone.Start(context.Background(), standalone.Config{SQLite: filepath.Join(t.TempDir(), "test.db"), Embedder: embedder, Gateway: config}, process, storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = system.Close() })
	c := client.New(system.Conn)
	home := map[string]string{} // namespace of a memory, by its key
	names := []string{"bakery", "software", "station"}
	for _, name := range names {
		var batch []*triskelev1.Memory
		lines(t, name+".jsonl", func(line []byte) {
			m := &triskelev1.Memory{}
			if err := protojson.Unmarshal(line, m); err != nil {
				t.Fatal(err)
			}
			m.Namespace = name
			home[m.GetIdempotencyKey()] = name
			batch = append(batch, m)
		})
		if _, err := c.Import(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitIndexed(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	said := func(namespace, prompt string) bool {
		t.Helper()
		event, err := json.Marshal(map[string]string{"prompt": prompt})
		if err != nil {
			t.Fatal(err)
		}
		config := usual
		config.Namespaces = []string{namespace}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		text, err := hook.Answer(ctx, bytes.NewReader(event), opened(func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return c.Recalls.Recall(ctx, req)
		}), config)
		return err == nil && len(text) > 0
	}
	var known, knownSaid, away, awaySaid, talk, talkSaid int
	lines(t, "queries.jsonl", func(line []byte) {
		var q struct {
			Text     string
			Relevant map[string]int
		}
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		for key := range q.Relevant {
			at := slices.Index(names, home[key])
			if at < 0 {
				return
			}
			if known++; said(names[at], q.Text) {
				knownSaid++
			}
			if away++; said(names[(at+1)%len(names)], q.Text) {
				awaySaid++
			}
			return
		}
	})
	for _, prompt := range small {
		for _, name := range names {
			if talk++; said(name, prompt) {
				talkSaid++
			}
		}
	}
	t.Logf("something is said: to %d of %d prompts that memories answer, to %d of %d that they do not, to %d of %d in small talk",
		knownSaid, known, awaySaid, away, talkSaid, talk)
	if known < 100 || 4*knownSaid < 3*known || 10*awaySaid > away || 10*talkSaid > 2*talk {
		t.Error("that is too often or not often enough")
	}
}
