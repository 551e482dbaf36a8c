package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/eval"
)

// writeRunFile writes "query document score" lines as a run file.
func writeRunFile(t *testing.T, dir, set, config string, lines ...string) {
	t.Helper()
	folder := filepath.Join(dir, "runs", set)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, line := range lines {
		fields := strings.Fields(line)
		text.WriteString(fields[0] + " Q0 " + fields[1] + " 1 " + fields[2] + " tag\n")
	}
	if err := os.WriteFile(filepath.Join(folder, config+".trec"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCompareRuns(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	writeRunFile(t, a, "set", "C-dense",
		"same x 0.9", "same y 0.8",
		"tied x 0.90001", "tied y 0.9",
		"swapped x 0.9", "swapped y 0.8",
		"shorter x 0.9", "shorter y 0.8")
	writeRunFile(t, b, "set", "C-dense",
		"same x 0.7", "same y 0.6",
		"tied y 0.90001", "tied x 0.9",
		"swapped y 0.9", "swapped x 0.89999", // a tie in one run only
		"shorter x 0.9",
		"absent x 0.9")
	writeRunFile(t, a, "set", "E-graph", "q x 1")
	writeRunFile(t, b, "set", "E-graph", "q x 1")
	writeRunFile(t, a, "set", "only-in-a", "q x 1")
	got, err := eval.CompareRuns(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := []eval.Comparison{
		{Set: "set", Config: "C-dense", Queries: 5, Same: 0.2, Tied: 0.4, Overlap: (1 + 1 + 1 + 0.5 + 0) / 5},
		{Set: "set", Config: "E-graph", Queries: 1, Same: 1, Tied: 1, Overlap: 1},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		g := got[i]
		if g.Set != w.Set || g.Config != w.Config || g.Queries != w.Queries || !near(g.Same, w.Same) || !near(g.Tied, w.Tied) || !near(g.Overlap, w.Overlap) {
			t.Errorf("got  %+v\nwant %+v", g, w)
		}
	}
	if _, err := eval.CompareRuns(a, t.TempDir()); err == nil {
		t.Error("nothing in common is no error")
	}
	if err := os.WriteFile(filepath.Join(b, "runs", "set", "E-graph.trec"), []byte("q Q0 x 1 1 tag\nq Q0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.CompareRuns(a, b); err == nil || !strings.Contains(err.Error(), "E-graph.trec:2: 2 columns") {
		t.Errorf("a broken run file: %v", err)
	}
}

// What lies below the tenth rank does not count, whether a document that a list lacks there is tied or not.
func TestCompareRunsLooksAtTen(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	var lines []string
	for _, id := range strings.Split("abcdefghij", "") {
		lines = append(lines, "q "+id+" 1")
	}
	writeRunFile(t, a, "set", "c", append(lines, "q k 1")...)
	writeRunFile(t, b, "set", "c", append(lines, "q z 5")...)
	got, err := eval.CompareRuns(a, b)
	if err != nil || len(got) != 1 || !near(got[0].Same, 1) {
		t.Errorf("got %+v, %v", got, err)
	}
}
