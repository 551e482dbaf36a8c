package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/triskele/triskele/tests/lab/chart"
	"github.com/triskele/triskele/tests/lab/measure"
)

// results are everything that was measured so far.
type results struct {
	crossing []crossing
	sizes    []*measured
}

func write(f flags, r results) error {
	if err := os.MkdirAll(f.Out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.Out, "dense.svg"), []byte(plot(r)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.Out, "dense.md"), []byte(report(f, r)), 0o644)
}

// plot draws the percentiles of the whole leg by number of memories.
func plot(r results) string {
	c := chart.Chart{X: chart.Axis{Label: "memories", Log: true}, Y: chart.Axis{Label: "ms", Log: true}}
	for i, name := range []string{"PostgreSQL", "SQLite", "PostgreSQL, index"} {
		for _, percent := range []int{50, 95} {
			line := chart.Series{Name: fmt.Sprintf("%s p%d", name, percent), Colour: i, Dashed: percent == 95}
			for _, m := range r.sizes {
				for _, s := range m.stores {
					if s.name == name {
						line.Points = append(line.Points, chart.Point{X: float64(m.size), Y: s.leg.At(percent).Seconds() * 1000})
					}
				}
			}
			if len(line.Points) > 0 {
				c.Series = append(c.Series, line)
			}
		}
	}
	return c.SVG()
}

func report(f flags, r results) string {
	var b strings.Builder
	server := "no PostgreSQL"
	names := make([]string, len(r.sizes))
	for i, m := range r.sizes {
		names[i] = fmt.Sprint(m.size)
		if m.server != "" {
			server = m.server
		}
	}
	fmt.Fprintf(&b, `# Dense search as a namespace grows

    make bench-dense DENSE_SIZES=%s

- Date: %s
- Machine: %d cores, %s/%s, %s; %s, crash safety off
- Corpus: synthetic notes of 8 to 40 of the built-in model's words, embedded by it. %d notes share a subject. A subject
  has %d words of one of %d topics, and names. A topic is %d words that are similar for the model. Half of a note's words
  are its subject's. The others are drawn from all words, Zipfian; seed %d, one namespace
- Queries: %d per size, 3 to 10 words of a subject, each new; depth %d, one at a time. Stores, filters and ways take
  turns. A store answers %d queries in a row, so that the processor's caches have its own data
- Client, leg and SQLite are in one process, PostgreSQL in its own, all on this machine

![Time of the whole leg by number of memories](dense.svg)

## Time
Milliseconds. "Embed" embeds a query that is not cached. "Search" searches with its vector. "Leg" is the whole call, for a
gRPC client on a loopback socket. "First" is the first search of a process, which waits for the vectors to be read.
"PostgreSQL, index" keeps no vectors in memory. CPU is the mean processor time of a search, in the leg's process and in
PostgreSQL's. Load is the machine's one-minute load average.

| memories | store | embed p50 | p95 | search p50 | p95 | CPU | in PostgreSQL | leg p50 | p95 | p99 | first | load |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, strings.Join(names, ","), time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server,
		perSubject, subjectWords, topics, topicWords, f.Seed, f.Queries, f.Depth, turn)
	ms := measure.Milliseconds
	for _, m := range r.sizes {
		for _, s := range m.stores {
			plain := s.searches[""]
			process, server := plain.cpu.Each(len(plain.times))
			fmt.Fprintf(&b, "| %d | %s | %.3f | %.3f | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.size, s.name,
				m.embed.At(50).Seconds()*1000, m.embed.At(95).Seconds()*1000, ms(plain.times.At(50)), ms(plain.times.At(95)), process, server,
				ms(s.leg.At(50)), ms(s.leg.At(95)), ms(s.leg.At(99)), ms(s.first), m.load)
		}
	}
	b.WriteString(`
## What is found
Recall@n is the share of the n exact nearest memories that are among the first n hits. Memories with equal scores are
interchangeable. "Fewest" is the smallest number of hits of any query; "of" is the largest possible number.

| memories | filter passes | store | recall@10 | recall@50 | fewest | of | p50 | p95 |
|---|---|---|---|---|---|---|---|---|
`)
	for _, m := range r.sizes {
		for _, filter := range filters {
			for _, s := range m.stores {
				of := s.searches[filter]
				fmt.Fprintf(&b, "| %d | %d | %s | %.4f | %.4f | %d | %d | %s | %s |\n", m.size, m.passing[filter], s.name,
					of.at10, of.at50, of.fewest, of.want, ms(of.times.At(50)), ms(of.times.At(95)))
			}
		}
	}
	if len(r.crossing) > 0 {
		b.WriteString(`
## Exact or through the index, on PostgreSQL
Milliseconds of a search in one namespace without a filter. The two ways take turns. CPU is PostgreSQL's, mean.

| memories | exact p50 | p95 | CPU | index p50 | p95 | CPU | exact / index in CPU |
|---|---|---|---|---|---|---|---|
`)
		for _, c := range r.crossing {
			fmt.Fprintf(&b, "| %d |", c.size)
			for _, way := range c.ways {
				_, server := way.cpu.Each(len(way.times))
				fmt.Fprintf(&b, " %s | %s | %s |", ms(way.times.At(50)), ms(way.times.At(95)), server)
			}
			fmt.Fprintf(&b, " %.2f |\n", float64(c.ways[0].cpu.Server)/float64(c.ways[1].cpu.Server))
		}
	}
	b.WriteString(`
## The floor on PostgreSQL, and bits
The time of a bare statement that reads ids and scores from an HNSW index, by ef_search. The index is over halfvec, as the
leg's. At the first size, a second index has one bit per dimension; its nearest by Hamming distance are rescored in half
precision. CPU is PostgreSQL's, mean. Bytes are the index's, per vector.

| memories | index | recall@10 | recall@50 | CPU | p50 | p95 | built in | bytes |
|---|---|---|---|---|---|---|---|---|
`)
	for _, m := range r.sizes {
		for _, way := range m.bare {
			if way.again == 0 {
				way.build = m.stores[0].index
			}
			_, server := way.cpu.Each(len(way.times))
			fmt.Fprintf(&b, "| %d | %s | %.4f | %.4f | %s | %s | %s | %v | %.0f |\n", m.size, way.name, way.at10, way.at50, server, ms(way.times.At(50)), ms(way.times.At(95)),
				way.build.Round(time.Second), way.bytesPerItem)
		}
	}
	b.WriteString(`
## Filling
All vectors are written at once. PostgreSQL then builds its index with 2 GB of memory and at most three processes.

| memories | store | filled in | of which the index |
|---|---|---|---|
`)
	for _, m := range r.sizes {
		for _, s := range m.stores {
			if s.filled == 0 {
				continue // with another
			}
			fmt.Fprintf(&b, "| %d | %s | %v | %v |\n", m.size, s.name, s.filled.Round(100*time.Millisecond), s.index.Round(100*time.Millisecond))
		}
	}
	return b.String()
}
