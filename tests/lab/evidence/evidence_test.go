package evidence_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/evidence"
)

const plan = `
name: small
title: Small
sets: [left, right]
metric: nDCG@10
configurations:
  - {name: in use}
  - {name: beside, policy: {legs: {dense: {weight: 2}}}}
  - {name: graph, policy: {legs: {lexical: {enabled: false}, dense: {enabled: false}}}}
  - {name: lexical, policy: {legs: {dense: {enabled: false}, graph: {enabled: false}}}}
  - name: convex
    policy: {fusion: {method: FUSION_METHOD_CONVEX}}
    vary:
      - {setting: fusion.alpha, values: [0, 0.5, 1]}
hypotheses:
  - {name: words, claim: Words beat a graph without names., baseline: graph, candidates: [lexical], decides: true}
  - {name: nothing, claim: A configuration beats itself., baseline: in use, candidates: [in use]}
  - {name: best, claim: The best alpha gives the dense leg no weight., baseline: in use, candidates: [convex]}
rule: {better: 2, level: 0.05, without: [graph]}
degradation: in use
`

// smallSet writes documents that each have a word of their own beside words that all have,
// and asks for each by its word. Nothing in them is a name.
func smallSet(t *testing.T, folder string) {
	t.Helper()
	var corpus, queries strings.Builder
	judgments := "query-id\tcorpus-id\tscore\n"
	for i := range 40 {
		word := fmt.Sprintf("%c%cx", 'a'+i%26, 'a'+i/2)
		fmt.Fprintf(&corpus, `{"_id":"d%d","text":"%s and a note that is about many things of the %c kind"}`+"\n", i, word, 'a'+i%3)
		fmt.Fprintf(&queries, `{"_id":"q%d","text":"which note of the many kinds of things has %s","metadata":{"category":"%d"}}`+"\n", i, word, i%2)
		judgments += fmt.Sprintf("q%d\td%d\t1\n", i, i)
	}
	for name, text := range map[string]string{"corpus.jsonl": corpus.String(), "queries.jsonl": queries.String(), "qrels.tsv": judgments} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, plan, data, out string) *evidence.Study {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	study, err := evidence.Run(t.Context(), evidence.Options{
		Plan: []byte(plan), Eval: eval.Options{Data: data, Store: "sqlite", Embedder: embed.NewHashed(), Out: out},
	}, process, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return study
}

func TestStudy(t *testing.T) {
	data, out, report := t.TempDir(), t.TempDir(), t.TempDir()
	smallSet(t, filepath.Join(data, "left"))
	smallSet(t, filepath.Join(data, "right"))
	study := run(t, plan, data, out)
	verdicts := study.Verdicts()
	if v := verdicts[0]; !v.Adopted || v.Candidate != "lexical" || !strings.Contains(v.Policy, `"dense":{"enabled":false}`) {
		t.Errorf("words: %+v", v)
	}
	if v := verdicts[1]; v.Adopted || v.Candidate != v.Baseline {
		t.Errorf("nothing: %+v", v)
	}
	if v := verdicts[2]; v.Candidate != "convex alpha=0" {
		t.Errorf("best: %+v", v)
	}

	// Reports are the same for the same plan and data, also when the runs are those that an interrupted study left.
	if err := study.Write(report); err != nil {
		t.Fatal(err)
	}
	first := files(t, report)
	gone, err := filepath.Glob(filepath.Join(out, "runs", "right", "*.trec"))
	if err != nil || len(gone) != 17 { // 7 configurations; lexical and three alphas lose graph, in use loses legs in 6 ways
		t.Fatalf("%d runs, %v", len(gone), err)
	}
	for _, file := range gone[5:] {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t, plan, data, out).Write(report); err != nil {
		t.Fatal(err)
	}
	second := files(t, report)
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs:\n%s\n\n%s", name, text, second[name])
		}
	}
	for name, want := range map[string]string{"small.md": "| words | graph | lexical | **adopt** |", "small.json": `"adopted": true`, "small-convex.svg": "polyline", "small-degradation.svg": "polyline"} {
		if !strings.Contains(first[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, first[name])
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "diffs", "words", "left.md"))
	if err != nil {
		t.Fatal(err)
	}
	// The graph knows no name, so that each query gains by words, and its side of the table is empty.
	for _, want := range []string{"left: lexical after graph", "40 queries gained, 0 lost", "### +1.000 q", "| 1 |  | d", " ★ (lexical #1 "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the queries that gained and lost have no %q:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "diffs", "nothing")); err == nil {
		t.Error("a configuration is set beside itself")
	}
	if !strings.Contains(first["small.md"], "| 100 % | 0.000 | 0.000 | 0.000 | 0.000 |") {
		t.Error("a recall that has lost all legs is worth something")
	}
}

func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = string(text)
	}
	return out
}

// TestRunsOfSomethingElse: what was measured under another plan or on other data is not taken for this one's.
func TestRunsOfSomethingElse(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	smallSet(t, filepath.Join(data, "left"))
	small := strings.NewReplacer("[left, right]", "[left]", "better: 2", "better: 1").Replace(plan)
	run(t, small, data, out)
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = evidence.Run(t.Context(), evidence.Options{
		Plan: []byte(strings.Replace(small, "0.5", "0.6", 1)), Eval: eval.Options{Data: data, Store: "sqlite", Embedder: embed.NewHashed(), Out: out},
	}, process, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "another plan") {
		t.Error(err)
	}
}

func TestParsePlan(t *testing.T) {
	plans, err := filepath.Glob("../../../docs/evidence/plans/*.yaml")
	if err != nil || len(plans) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	for _, file := range plans {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := evidence.ParsePlan(text); err != nil || p.Name+".yaml" != filepath.Base(file) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := evidence.ParsePlan([]byte(plan)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"field":         {"metric:", "metrik:"},
		"metric":        {"nDCG@10", "nDCG@11"},
		"policy":        {"fusion: {method: FUSION_METHOD_CONVEX}", "fusion: {metod: 1}"},
		"enum":          {"FUSION_METHOD_CONVEX", "CONVEX"},
		"bound":         {"values: [0, 0.5, 1]", "values: [0, 0.5, 2]"},
		"path":          {"fusion.alpha", "fusion.alfa"},
		"baseline":      {"baseline: graph", "baseline: grap"},
		"candidate":     {"candidates: [lexical]", "candidates: [lexica]"},
		"no candidate":  {"candidates: [lexical]", "candidates: []"},
		"twice":         {"name: in use}\n", "name: in use}\n  - {name: in use}\n"},
		"rule":          {"better: 2", "better: 3"},
		"tolerance":     {"level: 0.05", "level: 0.05, tolerance: 2"},
		"level":         {"level: 0.05", "level: 5"},
		"degradation":   {"degradation: in use", "degradation: not in use"},
		"two documents": {"degradation: in use", "---\nname: b"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(plan, change[0], change[1], 1)
			if text == plan {
				t.Fatal("nothing was changed")
			}
			if _, err := evidence.ParsePlan([]byte(text)); err == nil {
				t.Error("accepted")
			}
		})
	}
}
