package demo_test

import (
	"bytes"
	"strings"
	"testing"

	"buf.build/go/protovalidate"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/agents/demo"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestRun(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	embedder, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := demo.Run(t.Context(), &out, render.Style{}, embedder, process, storetest.Log()); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestRunWithAnother embedder, for which some claims do not hold: the demo prints them and returns no error.
func TestRunWithAnother(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = demo.Run(t.Context(), &out, render.Style{}, embed.NewHashed(), process, storetest.Log())
	text := strings.Join(strings.Fields(out.String()), " ")
	if err != nil {
		t.Errorf("got %v, want no error", err)
	}
	for _, want := range []string{": proc-leaked-credential is among the first 3", "Everything else was checked"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s\nwant %q in it", out.String(), want)
		}
	}
}

func TestCorpus(t *testing.T) {
	memories, err := demo.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	if len(memories) < 200 {
		t.Errorf("%d memories are too few", len(memories))
	}
	superseded := map[string]bool{}
	known := map[string]bool{}
	for _, m := range memories {
		if known[m.GetId()] {
			t.Errorf("memory %s is there twice", m.GetId())
		}
		known[m.GetId()] = true
		superseded[m.GetId()] = m.GetSupersededBy() != ""
		if err := protovalidate.Validate(m); err != nil {
			t.Errorf("%s: %v", m.GetTitle(), err)
		}
	}
	queries, err := demo.Queries()
	if err != nil {
		t.Fatal(err)
	}
	strata := map[string]int{}
	for _, q := range queries {
		strata[q.Stratum]++
		if len(q.Relevant) == 0 {
			t.Errorf("%s has no answer", q.ID)
		}
		for _, key := range q.Relevant {
			if !known[demo.ID(key)] || superseded[demo.ID(key)] {
				t.Errorf("%s: %s is unknown or superseded", q.ID, key)
			}
		}
	}
	for _, stratum := range []string{"exact", "paraphrase", "multi-hop", "superseded"} {
		if strata[stratum] < 10 {
			t.Errorf("%d questions of stratum %s are too few", strata[stratum], stratum)
		}
	}
}
