package golden_test

import (
	"fmt"
	"strconv"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// page is how many hits an agent reads.
const page = 10

const legend = `# Written by "make golden".
#
# Means over the queries of a stratum that something answers. Then of the first 10 hits of every query: how many an agent can
# use on average, and how many in all say again what one above them says, are superseded, or have expired.

`

const ranksLegend = `
# Ranks among the first 20 of the memories that answer, answers before what only helps; - if not among them. A second line
# has the ranks of memories that must not come, or only if superseded ones are asked for, as in the last column.

`

// use is what an agent can do with the first page of answers.
type use struct{ usable, repeats, superseded, expired int }

func (u *use) add(c *corpus, hits []*triskelev1.Hit) {
	seen := map[int]bool{}
	for _, hit := range hits[:min(page, len(hits))] {
		key := c.keys[hit.GetId()]
		group := c.groups[key]
		switch m := c.memories[key]; {
		case m.GetExpiresAt() != nil:
			u.expired++
		case m.GetSupersededBy() != "":
			u.superseded++
		case group != 0 && seen[group]:
			u.repeats++
		default:
			u.usable++
		}
		seen[group] = true
	}
}

// report is the text of a golden file: a line for each stratum and setting, then one or two for each query. The first word
// of a line says what it is about.
func (c *corpus) report(got answers) string {
	strata := []string{"all"}
	for i, q := range c.queries {
		if i == 0 || c.queries[i-1].Stratum != q.Stratum {
			strata = append(strata, q.Stratum)
		}
	}
	var b strings.Builder
	b.WriteString(legend)
	fmt.Fprintf(&b, "%-24s %8s %9s %9s %9s %9s %9s %11s %8s\n", "stratum/setting", "queries", metricNames[0], metricNames[1], metricNames[2], metricNames[3], "repeats", "superseded", "expired")
	for _, stratum := range strata {
		for _, s := range settings() {
			if !s.superseded || stratum == "superseded" {
				b.WriteString(c.means(stratum, s.name, got[s.name]))
			}
		}
	}
	b.WriteString(ranksLegend)
	line := func(first, last string, cell func(setting) string) {
		text := fmt.Sprintf("%-20s", first)
		for _, s := range settings() {
			text += fmt.Sprintf(" %-9s", cell(s))
		}
		b.WriteString(strings.TrimRight(text+" "+last, " ") + "\n")
	}
	line("query", "text", func(s setting) string { return s.name })
	for i, q := range c.queries {
		ranks := func(keys []string) func(setting) string {
			return func(s setting) string {
				if s.superseded && len(q.Absent) == 0 {
					return ""
				}
				return c.ranks(got[s.name][i], keys)
			}
		}
		line(q.ID, q.Text, ranks(q.answerKeys()))
		if len(q.Absent) > 0 {
			line(q.ID+"/absent", "", ranks(q.Absent))
		}
	}
	return b.String()
}

// metricNames are the means in a line of the summary, behind the number of queries.
var metricNames = []string{"recall@5", "recall@10", "MRR@10", "usable"}

// means is the summary's line for the queries of a stratum in a setting.
func (c *corpus) means(stratum, setting string, lists [][]*triskelev1.Hit) string {
	var measured []eval.Metrics
	var u use
	asked := 0
	for i, q := range c.queries {
		if stratum != "all" && stratum != q.Stratum {
			continue
		}
		asked++
		u.add(c, lists[i])
		if len(q.Relevant) == 0 {
			continue
		}
		ranking := make([]string, len(lists[i]))
		for n, hit := range lists[i] {
			ranking[n] = c.keys[hit.GetId()]
		}
		measured = append(measured, eval.Measure(ranking, q.Relevant))
	}
	m := eval.Mean(measured)
	return fmt.Sprintf("%-24s %8d %9.3f %9.3f %9.3f %9.2f %9d %11d %8d\n",
		stratum+"/"+setting, asked, m.Recall5, m.Recall10, m.MRR10, float64(u.usable)/float64(asked), u.repeats, u.superseded, u.expired)
}

func (c *corpus) ranks(hits []*triskelev1.Hit, keys []string) string {
	ranks := make([]string, len(keys))
	for i, key := range keys {
		if ranks[i] = "-"; c.rank(hits, key) > 0 {
			ranks[i] = strconv.Itoa(c.rank(hits, key))
		}
	}
	return strings.Join(ranks, ",")
}
