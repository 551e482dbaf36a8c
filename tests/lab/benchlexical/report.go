package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/tests/lab/chart"
)

// write writes what was measured so far.
func write(f flags, measured []measurement) error {
	if err := os.MkdirAll(f.Out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.Out, "lexical.svg"), []byte(plot(measured)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.Out, "lexical.md"), []byte(report(f, measured)), 0o644)
}

// plot draws the percentiles by number of memories.
func plot(measured []measurement) string {
	c := chart.Chart{X: chart.Axis{Label: "memories", Log: true}, Y: chart.Axis{Label: "ms", Log: true}}
	for i, scorer := range measured[0].scorers {
		for _, percent := range []int{50, 95} {
			line := chart.Series{Name: fmt.Sprintf("%s p%d", scorer.name, percent), Colour: i, Dashed: percent == 95}
			for _, m := range measured {
				line.Points = append(line.Points, chart.Point{X: float64(m.size), Y: m.scorers[i].at(percent).Seconds() * 1000})
			}
			c.Series = append(c.Series, line)
		}
	}
	return c.SVG()
}

func report(f flags, measured []measurement) string {
	var b strings.Builder
	last := measured[len(measured)-1]
	fmt.Fprintf(&b, `# Lexical search as a namespace grows

    make bench-lexical SIZES=%s

- Date: %s
- Machine: %d cores, %s/%s, %s; %s, crash safety off
- Corpus: memories of 20 to 80 words from a vocabulary of %d, Zipfian with exponent %v and offset %d, seed %d, in one namespace
- Queries: %d per size, 3 to 10 words of a memory; depth %d, deadline %v. The scorers answer each query in turn, on one
  connection pool

![Time of a search by number of memories](lexical.svg)

## Search
Milliseconds as the caller of the searcher sees them. Rows are the table rows and index entries that the server read, on
average. Source@10 is the share of queries whose memory is among the first ten. Load is the machine's one-minute load
average after the queries.

| memories | scorer | p50 | p95 | p99 | rows | source@10 | truncated | failed | load |
|---|---|---|---|---|---|---|---|---|---|
`, sizes(measured), time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), last.server,
		vocabulary, exponent, offset, f.Seed, f.Queries, f.Depth, f.Deadline)
	for _, m := range measured {
		for _, s := range m.scorers {
			fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %.0f | %.3f | %d | %d | %s |\n",
				m.size, s.name, ms(s.at(50)), ms(s.at(95)), ms(s.at(99)), s.rows, s.found, s.truncated, s.failed, m.loadAverage)
		}
	}
	b.WriteString("\n| memories | ts_rank / bm25 at p50 | at p95 |\n|---|---|---|\n")
	for _, m := range measured {
		bm25, rank := m.scorers[0], m.scorers[1]
		fmt.Fprintf(&b, "| %d | %.1f | %.1f |\n", m.size, ratio(rank.at(50), bm25.at(50)), ratio(rank.at(95), bm25.at(95)))
	}
	b.WriteString(`
## Writing
Milliseconds per memory through the memory service's store, with the lexical index and without, in turns. The other
columns are bytes per memory after loading.

| memories | one at a time | without | a hundred at a time | without |`)
	parts := make([]string, 0, len(last.bytes))
	for part := range last.bytes {
		parts = append(parts, part)
	}
	slices.Sort(parts)
	b.WriteString(" " + strings.Join(parts, " | ") + " |\n|" + strings.Repeat("---|", 5+len(parts)) + "\n")
	for _, m := range measured {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |", m.size, ms(m.write1[0]), ms(m.write1[1]), ms(m.write100[0]), ms(m.write100[1]))
		for _, part := range parts {
			fmt.Fprintf(&b, " %.0f |", m.bytes[part])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func sizes(measured []measurement) string {
	names := make([]string, len(measured))
	for i, m := range measured {
		names[i] = fmt.Sprint(m.size)
	}
	return strings.Join(names, ",")
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
