// Command timecurve draws what a recall finds against the time that it takes, from reports of triskele eval: one per setting of the reranker.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/chart"
)

type flags struct {
	Reports []string `arg:"" help:"Folders with a report.json, each named by its setting: 'ten memories=DIR'. The first set and configuration of each count." placeholder:"NAME=DIR"`
	Peers   []string `help:"Figures that others publish without a time: 'a cross-encoder=0.598'." placeholder:"NAME=MRR"`
	Command string   `help:"What to say wrote the page."`
	Out     string   `help:"Folder for time.md and time.svg." required:"" type:"existingdir" placeholder:"DIR"`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("timecurve"), kong.Description("Draws recall against milliseconds."))
	if err := run(f, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// setting is one way to recall, as it was measured.
type setting struct {
	name  string
	mean  eval.Metrics
	times eval.Percentiles
}

func run(f flags, log io.Writer) error {
	var settings []setting
	var about *eval.Report
	for _, named := range f.Reports {
		name, folder, ok := strings.Cut(named, "=")
		if !ok {
			return fmt.Errorf("%q must be NAME=DIR", named)
		}
		file, err := os.ReadFile(filepath.Join(folder, "report.json"))
		if err != nil {
			return err
		}
		var report eval.Report
		if err := json.Unmarshal(file, &report); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if len(report.Sets) == 0 || len(report.Sets[0].Configs) == 0 || len(report.Sets[0].Configs[0].Strata) == 0 {
			return fmt.Errorf("%s: the report has no configuration", folder)
		}
		of := report.Sets[0].Configs[0]
		settings, about = append(settings, setting{name, of.Strata[0].Metrics, of.Latency}), &report
	}
	if about == nil {
		return errors.New("no report is given")
	}
	slices.SortStableFunc(settings, func(a, b setting) int { return cmp.Compare(a.times.P50, b.times.P50) })
	svg, err := draw(settings, f.Peers)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.Out, "time.svg"), []byte(svg), 0o644); err != nil {
		return err
	}
	path := filepath.Join(f.Out, "time.md")
	_, _ = fmt.Fprintln(log, "wrote", path)
	return os.WriteFile(path, []byte(page(about, settings, f.Command)), 0o644)
}

func draw(settings []setting, peers []string) (string, error) {
	c := chart.Chart{X: chart.Axis{Label: "ms of a recall at p50", Log: true, Ticks: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}}, Y: chart.Axis{Label: "MRR@10"}, LegendSize: 260}
	ours := chart.Series{Name: "Triskele"}
	for _, s := range settings {
		ours.Points = append(ours.Points, chart.Point{X: s.times.P50, Y: s.mean.MRR10})
	}
	c.Series = append(c.Series, ours)
	for i, peer := range peers {
		name, value, _ := strings.Cut(peer, "=")
		var mrr float64
		if _, err := fmt.Sscan(value, &mrr); err != nil {
			return "", fmt.Errorf("%q must be NAME=MRR: %w", peer, err)
		}
		c.Series = append(c.Series, chart.Series{Name: name, Dashed: true, Colour: i + 1, Points: []chart.Point{{X: 1, Y: mrr}, {X: 1000, Y: mrr}}})
	}
	return c.SVG(), nil
}

func page(about *eval.Report, settings []setting, command string) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "# What time buys\n\n    %s\n\n", command)
	_, _ = fmt.Fprintf(&b, "- Date: %s\n- Machine: %s, %d cores; %s; %s\n", about.Date, about.Machine.CPU, about.Machine.Cores, about.Machine.OS, about.Machine.Go)
	_, _ = fmt.Fprintf(&b, "- Set: the first %d questions of %s, one recall at a time, on %s\n- Embedder: %s\n\n", about.Sets[0].Queries, about.Sets[0].Name, about.Database, about.Settings.Embedder)
	b.WriteString("The reranker reads the first memories once more. A setting says how many at most, or how long. Dashed lines are figures that others publish for\nall 1,982 questions, without a time.\n\n")
	b.WriteString("![MRR@10 against the time of a recall](time.svg)\n\n| the reranker reads | p50 | p95 | MRR@10 | success@5 | success@10 | nDCG@10 |\n|---|---|---|---|---|---|---|\n")
	for _, s := range settings {
		_, _ = fmt.Fprintf(&b, "| %s | %.1f ms | %.1f ms | %.3f | %.3f | %.3f | %.3f |\n", s.name, s.times.P50, s.times.P95, s.mean.MRR10, s.mean.Success5, s.mean.Success10, s.mean.NDCG10)
	}
	return b.String()
}
