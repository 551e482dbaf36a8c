package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestFactsFromTurns says something in a session, and in a later one the opposite. With a chat model, facts come of what was captured,
// and the curator has the newer turn replace the older one.
func TestFactsFromTurns(t *testing.T) {
	t.Parallel()
	models := newScript(t)
	models.set(func(s *script) {
		s.judge = func(older int) (string, int) {
			if older == 0 {
				return "add", 0
			}
			return "supersede", 1
		}
	})
	extractor := []string{"--extractor-url", models.URL + extraction + "/v1", "--extractor-model", "scripted", "--extractor-per-minute", "60000"}
	o := startOne(t, setup{args: map[string][]string{"triskele": slices.Concat(curatedBy(models), extractor)}})
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "triskele"), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("triskele %s: %v\n%s", args[0], err, out)
		}
		return string(out)
	}
	turns := map[string]*triskelev1.Memory{} // by session
	for session, says := range []string{"The vault of Kestrel is on pier nine.", "The vault of Kestrel is on pier seven now."} {
		name := fmt.Sprint("s", session)
		file := filepath.Join(t.TempDir(), name+".jsonl")
		line := fmt.Sprintf(`{"type":"user","uuid":"1","sessionId":%q,"cwd":"/work","message":{"content":%q}}`+"\n", name, says)
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		run("capture", file, "--namespace", "n", "--address", o.processes["triskele"].address)
		o.eventually("a decision about "+says, func() bool {
			resp, err := o.memory.ListDecisions(t.Context(), &triskelev1.ListDecisionsRequest{Namespace: "n"})
			return err == nil && len(resp.GetDecisions()) == session+1
		})
		o.awaitIndexes("n")
		listed, err := o.memory.List(t.Context(), &triskelev1.ListRequest{Namespace: "n", Filter: &triskelev1.Filter{Categories: []string{"turn"}, IncludeSuperseded: true}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listed.GetMemories() {
			turns[m.GetThread()] = m
		}
	}
	if len(turns) != 2 || turns["s0"].GetSupersededBy() != turns["s1"].GetId() {
		t.Fatalf("got turns %v, want the first superseded by the second", turns)
	}
	fact := run("graph", "show", "Kestrel", "--namespace", "n", "--sqlite", o.file)
	if want := "Kestrel has vault"; !strings.Contains(fact, want) || !strings.Contains(fact, "says "+turns["s1"].GetId()) {
		t.Errorf("got the concept\n%s\nwant %q, said by the newer turn, %s", fact, want, turns["s1"].GetId())
	}
	// A fact has another memory found that names the other end.
	resp, err := o.recall.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "Where is the vault of Kestrel?"})
	if err != nil {
		t.Fatal(err)
	}
	if hits := resp.GetHits(); len(hits) != 1 || hits[0].GetMemory().GetId() != turns["s1"].GetId() {
		t.Errorf("got hits %v, want the newer turn alone", hits)
	}
}
