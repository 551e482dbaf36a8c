package hook_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// everyday is a store of memories with prompts: the line of the memory that answers, from 1 and 0 for none.
type everyday struct {
	name     string
	memories []string
	prompts  []prompt
}

type prompt struct {
	line int
	text string
}

// everydayStores reads a folder of testdata: a line for each memory, an empty line, and a line for each prompt, with the number of the
// memory that answers it, or -, before a tab. The model never learned from them.
func everydayStores(t *testing.T, folder string) []everyday {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stores: %v", err)
	}
	stores := make([]everyday, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		memories, prompts, _ := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
		stores[i] = everyday{name: strings.TrimSuffix(filepath.Base(file), ".txt"), memories: strings.Split(memories, "\n")}
		for _, line := range strings.Split(prompts, "\n") {
			number, text, found := strings.Cut(line, "\t")
			at, err := strconv.Atoi(number)
			if !found || err != nil && number != "-" || at > len(stores[i].memories) {
				t.Fatalf("%s: prompt %q", file, line)
			}
			stores[i].prompts = append(stores[i].prompts, prompt{at, text})
		}
	}
	return stores
}

// tally counts prompts: those with an answer, of them those that got it first, those without one, and of them those that got anything.
type tally struct{ answerable, answered, other, said int }

// hold fails if less than a percentage got their answers, or more than a percentage of the others got something.
func (n tally) hold(t *testing.T, answered, said int) {
	t.Helper()
	t.Logf("%d of %d prompts got their answers, %d of %d others got something", n.answered, n.answerable, n.said, n.other)
	if n.answered*100 < answered*n.answerable {
		t.Errorf("%d of %d prompts got their answers, want at least %d %%", n.answered, n.answerable, answered)
	}
	if n.said*100 > said*n.other {
		t.Errorf("%d of %d prompts without an answer got something, want at most %d %%", n.said, n.other, said)
	}
}

// TestEverydayStores holds the cut between what answers and what does not: how many of the prompts with an answer get it first, and
// how many of the others get anything. Half of the latter are about what a store is about. Short and long memories in English have a
// bound together.
func TestEverydayStores(t *testing.T) {
	var english tally
	ran := 0
	for _, x := range []struct {
		folder         string
		answered, said int // per cent: at least, at most
	}{{"everyday", 90, 5}, {"languages", 85, 2}, {"notes", 85, 5}} {
		t.Run(x.folder, func(t *testing.T) {
			n := testStores(t, everydayStores(t, x.folder))
			n.hold(t, x.answered, x.said)
			if x.folder != "languages" {
				ran++
				english = tally{english.answerable + n.answerable, english.answered + n.answered, english.other + n.other, english.said + n.said}
			}
		})
	}
	if ran == 2 {
		english.hold(t, 90, 5)
	}
}

func testStores(t *testing.T, stores []everyday) (n tally) {
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
	for _, store := range stores {
		var batch []*triskelev1.Memory
		for _, text := range store.memories {
			batch = append(batch, &triskelev1.Memory{Namespace: store.name, Content: text})
		}
		if _, err := c.Import(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitIndexed(t.Context(), store.name, nil); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(namespace, text string) []*triskelev1.Hit {
		t.Helper()
		resp, err := c.Recalls.Recall(t.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{namespace}, Query: text, MinScore: &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: client.Maybe}, ReturnLeftOut: 1,
			Fusion: &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED}, Rerank: client.Reread(), Budget: durationpb.New(10 * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetMinScoreIgnored() != "" || resp.GetNothingRelevant() && len(resp.GetLeftOut()) != 1 {
			t.Fatalf("%q: min_score ignored because %q, %d left out, want it applied and the best left out", text, resp.GetMinScoreIgnored(), len(resp.GetLeftOut()))
		}
		return resp.GetHits()
	}
	for i, store := range stores {
		next := stores[(i+1)%len(stores)].name
		for _, p := range store.prompts {
			hits := ask(store.name, p.text)
			if p.line == 0 {
				if n.other++; len(hits) > 0 {
					n.said++
					t.Logf("%s: %q has no answer, got %q with %.2f", store.name, p.text, hits[0].GetMemory().GetContent(), hits[0].GetScore())
				}
				continue
			}
			if n.answerable++; len(hits) > 0 && hits[0].GetMemory().GetContent() == store.memories[p.line-1] {
				n.answered++
			} else {
				t.Logf("%s: %q got %d hits, want %q first", store.name, p.text, len(hits), store.memories[p.line-1])
			}
			if n.other++; len(ask(next, p.text)) > 0 {
				n.said++
				t.Logf("%s: %q has no answer there", next, p.text)
			}
		}
	}
	return n
}
