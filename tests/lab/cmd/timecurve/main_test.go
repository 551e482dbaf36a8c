package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/eval"
)

func report(t *testing.T, mrr, p50 float64) string {
	t.Helper()
	folder := t.TempDir()
	file, err := json.Marshal(eval.Report{Sets: []eval.SetReport{{Name: "talk", Queries: 7, Configs: []eval.ConfigReport{{
		Name: "A-all", Strata: []eval.Stratum{{Name: "all", Metrics: eval.Metrics{MRR10: mrr}}}, Latency: eval.Percentiles{P50: p50},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "report.json"), file, 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The page has the quickest setting first, and the curve as many points as settings.
func TestCurve(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	f := flags{Reports: []string{"ten=" + report(t, 0.63, 45), "none=" + report(t, 0.57, 1.25)}, Peers: []string{"another=0.5"}, Command: "make it", Out: out}
	if err := run(f, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "time.md"))
	if err != nil {
		t.Fatal(err)
	}
	none, ten := strings.Index(string(page), "| none | 1.2 ms | 0.0 ms | 0.570 |"), strings.Index(string(page), "| ten | 45.0 ms | 0.0 ms | 0.630 |")
	if none < 0 || ten < none {
		t.Errorf("got\n%s\nwant none before ten", page)
	}
	svg, err := os.ReadFile(filepath.Join(out, "time.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "another") || !strings.Contains(string(svg), "Triskele") {
		t.Error("the chart lacks a line")
	}
}

func TestBadReports(t *testing.T) {
	t.Parallel()
	good := report(t, 0.6, 1)
	for name, f := range map[string]flags{
		"no report is given":         {},
		`"ten" must be NAME=DIR`:     {Reports: []string{"ten"}},
		"no such file":               {Reports: []string{"ten=" + t.TempDir()}},
		`"another" must be NAME=MRR`: {Reports: []string{"ten=" + good}, Peers: []string{"another"}},
	} {
		f.Out = t.TempDir()
		if err := run(f, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}
