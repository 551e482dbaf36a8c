package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/services/graph"
)

// TrialReport is the outcome of a trial of the graph leg.
type TrialReport struct {
	Command string  `json:"command,omitempty"`
	Commit  string  `json:"commit,omitempty"`
	Date    string  `json:"date"`
	Machine Machine `json:"machine"`
	Store   string  `json:"store"`
	// Embedder is that of the dense leg.
	Embedder string     `json:"embedder"`
	Sets     []TrialSet `json:"sets"`
}

// TrialSet is the outcome of one set under one condition.
type TrialSet struct {
	Name    string      `json:"name"`
	Queries int         `json:"queries"`
	Triples int         `json:"triples"`
	Stats   graph.Stats `json:"graph"`
	// Linked is the share of queries that name a concept; Reach1 and Reach2 are the shares of relevant documents within one and
	// two hops of it.
	Linked float64 `json:"linked"`
	Reach1 float64 `json:"reach_1"`
	Reach2 float64 `json:"reach_2"`
	// Bases are the rankings without the graph, Alone each way of searching the graph by itself.
	Bases map[string]Metrics `json:"bases"`
	Alone map[string]Metrics `json:"alone"`
	// Stale is the share of queries with replaced documents for which one of these is ranked above all relevant ones, of a
	// ranking. Set only for sets that say what has been replaced.
	Stale map[string]float64 `json:"stale,omitempty"`
	// Categories are the strata, with their recall@5 by lexical + dense.
	Categories map[string]TrialCategory `json:"categories,omitempty"`
	Runs       []TrialRun               `json:"runs"`
	Latency    map[string]Percentiles   `json:"latency"`
}

// TrialCategory is one stratum of a set.
type TrialCategory struct {
	Queries int     `json:"queries"`
	Recall5 float64 `json:"recall_at_5"`
}

// TrialRun is one way of adding the graph to a ranking.
type TrialRun struct {
	Base    string  `json:"base"`
	System  string  `json:"system"`
	Weight  float64 `json:"weight,omitempty"` // of the graph's list; 0 with a quota
	Quota   int     `json:"quota,omitempty"`
	Metrics Metrics `json:"metrics"`
	// Recall5 and NDCG10 are the differences to the base.
	Recall5 Interval            `json:"delta_recall_at_5"`
	NDCG10  Interval            `json:"delta_ndcg_at_10"`
	Strata  map[string]Interval `json:"delta_recall_at_5_by_category,omitempty"`
	// OnlyGraph counts the documents among the first ten of a query that no other leg had in its list, OnlyGraphRelevant those
	// of them that are relevant.
	OnlyGraph         int `json:"only_graph"`
	OnlyGraphRelevant int `json:"only_graph_relevant"`
}

func (t TrialRun) setting() string {
	if t.Quota > 0 {
		return fmt.Sprintf("quota %d", t.Quota)
	}
	return fmt.Sprintf("weight %g", t.Weight)
}

// Of the graph leg, as the gateway has them by default.
var (
	defaultWeight = gateway.DefaultLegs(nil)[2].Weight
	defaultTrust  = gateway.DefaultLegs(nil)[2].Trust
)

const (
	baseBoth    = "lexical + dense"
	baseLexical = "lexical"
)

var bases = []string{baseBoth, baseLexical}

func (l lists) base(name string) []fusion.List {
	if name == baseLexical {
		return []fusion.List{l.lexical}
	}
	return []fusion.List{l.lexical, l.dense}
}

// judge fuses the lists in every way and measures the results.
func (s *TrialSet) judge(queries []Query, answers []lists) {
	s.Bases, s.Alone, s.Latency = map[string]Metrics{}, map[string]Metrics{}, map[string]Percentiles{}
	relevant, within1, within2, linked := 0, 0, 0, 0
	for i, q := range queries {
		for _, grade := range q.Grades {
			if grade > 0 {
				relevant++
			}
		}
		for _, hops := range answers[i].hops {
			within2++
			if hops == 1 {
				within1++
			}
		}
		if answers[i].linked {
			linked++
		}
	}
	s.Linked = float64(linked) / float64(max(len(queries), 1))
	s.Reach1, s.Reach2 = float64(within1)/float64(max(relevant, 1)), float64(within2)/float64(max(relevant, 1))
	hasStale := slices.ContainsFunc(queries, func(q Query) bool { return len(q.Stale) > 0 })
	if hasStale {
		s.Stale = map[string]float64{}
	}
	measure := func(rankings [][]string) []Metrics {
		out := make([]Metrics, len(queries))
		for i, q := range queries {
			out[i] = Measure(rankings[i], q.Grades)
		}
		return out
	}
	for _, system := range append([]string{"lexical", "dense"}, systems[:3]...) {
		var spent []time.Duration
		rankings := make([][]string, len(queries))
		for i := range answers {
			spent = append(spent, answers[i].spent[system])
			list, isGraph := answers[i].graphs[system]
			if isGraph {
				rankings[i] = idsOf(fuse([]fusion.List{list}, depth))
			}
		}
		s.Latency[system] = NewPercentiles(spent)
		if slices.Contains(systems, system) {
			s.Alone[system] = Mean(measure(rankings))
			if hasStale {
				s.Stale[system] = staleShare(queries, rankings)
			}
		}
	}
	for _, base := range bases {
		baseRankings := make([][]string, len(queries))
		for i := range answers {
			baseRankings[i] = idsOf(fuse(answers[i].base(base), 2*depth))
		}
		before := measure(baseRankings)
		s.Bases[base] = Mean(before)
		if base == baseBoth {
			s.categorise(queries, before)
		}
		if hasStale {
			s.Stale[base] = staleShare(queries, baseRankings)
		}
		for _, system := range systems {
			for _, run := range trialRuns(base, system) {
				rankings := make([][]string, len(queries))
				for i := range answers {
					list := answers[i].graphs[system]
					if run.Quota > 0 {
						rankings[i] = quota(baseRankings[i], list, run.Quota)
					} else {
						list.Weight, list.Trust = run.Weight, defaultTrust*answers[i].coverage[system]
						rankings[i] = idsOf(fuse(append(answers[i].base(base), list), 2*depth))
					}
				}
				after := measure(rankings)
				run.Metrics = Mean(after)
				run.compare(queries, before, after)
				for i, q := range queries {
					for _, id := range rankings[i][:min(10, len(rankings[i]))] {
						if !slices.Contains(baseRankings[i], id) {
							run.OnlyGraph++
							if q.Grades[id] > 0 {
								run.OnlyGraphRelevant++
							}
						}
					}
				}
				s.Runs = append(s.Runs, run)
				if hasStale && system == systemRank && run.Quota == 0 {
					s.Stale[fmt.Sprintf("%s + %s, %s", base, system, run.setting())] = staleShare(queries, rankings)
				}
			}
		}
	}
}

// categorise takes recall@5 by stratum.
func (s *TrialSet) categorise(queries []Query, measured []Metrics) {
	s.Categories = map[string]TrialCategory{}
	for i, q := range queries {
		c := s.Categories[q.Stratum]
		c.Recall5 = (c.Recall5*float64(c.Queries) + measured[i].Recall5) / float64(c.Queries+1)
		c.Queries++
		s.Categories[q.Stratum] = c
	}
}

func trialRuns(base, system string) []TrialRun {
	var runs []TrialRun
	for _, w := range trialWeights {
		runs = append(runs, TrialRun{Base: base, System: system, Weight: w})
	}
	for _, n := range trialQuotas {
		runs = append(runs, TrialRun{Base: base, System: system, Quota: n})
	}
	return runs
}

// compare fills in the paired differences.
func (t *TrialRun) compare(queries []Query, before, after []Metrics) {
	var recall, ndcg []float64
	strata := map[string][]float64{}
	for i := range queries {
		difference := after[i].Recall5 - before[i].Recall5
		recall, ndcg = append(recall, difference), append(ndcg, after[i].NDCG10-before[i].NDCG10)
		strata[queries[i].Stratum] = append(strata[queries[i].Stratum], difference)
	}
	t.Recall5, t.NDCG10 = bootstrap(recall), bootstrap(ndcg)
	if len(strata) > 1 {
		t.Strata = map[string]Interval{}
		for name, differences := range strata {
			t.Strata[name] = bootstrap(differences)
		}
	}
}

// staleShare is the share of the queries with replaced documents that have one of them above the best relevant document.
func staleShare(queries []Query, rankings [][]string) float64 {
	asked, above := 0, 0
	for i, q := range queries {
		if len(q.Stale) == 0 {
			continue
		}
		asked++
		for _, id := range rankings[i] {
			if q.Grades[id] > 0 {
				break
			}
			if slices.Contains(q.Stale, id) {
				above++
				break
			}
		}
	}
	return float64(above) / float64(max(asked, 1))
}

func (r *runner) newTrialReport() *TrialReport {
	general := r.newReport()
	return &TrialReport{Command: general.Command, Commit: general.Commit, Date: general.Date, Machine: general.Machine, Store: r.options.Store, Embedder: general.Settings.Embedder}
}

func (t *TrialReport) write(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "trial.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "trial.md"), t.Markdown(), 0o644)
}

// Markdown is the report for people.
func (t *TrialReport) Markdown() []byte {
	var out bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	table := func(header string) {
		line("\n| %s |\n|%s", header, strings.Repeat("---|", strings.Count(header, "|")+1))
	}
	line("# Does the graph earn its place?\n")
	if t.Command != "" {
		line("    %s\n", t.Command)
	}
	if t.Commit != "" {
		line("- Commit: %s", t.Commit)
	}
	line("- Date: %s", t.Date)
	line("- Machine: %s, %d cores; store: %s", t.Machine.CPU, t.Machine.Cores, t.Store)
	line("- Embedder: %s", t.Embedder)
	line("- RRF with k %d; 50 of each leg's list; the graph starts from %d memories in seeded mode; differences with 95 %% intervals of a paired bootstrap", fusion.DefaultK, seedDepth)
	if defaultTrust > 0 {
		line("- Beside two other legs the graph's weight is multiplied by 1 + %g × coverage, as the gateway does", defaultTrust)
	}
	line("- \"random\": the same search in a graph in which every memory has changed places with another that has as many concepts; in seeded mode it starts from the same seeds")

	line("\n## What there is to find")
	line("\nlinked: queries that name a concept. 1 hop: relevant documents that mention one of these. 2 hops: those that share a concept, a fact or a link with such a document.")
	table("set | queries | memories | concepts | of one memory | hubs | mentions | facts | linked | 1 hop | 2 hops")
	for _, s := range t.Sets {
		line("| %s | %d | %d | %d | %d | %d | %d | %d | %.3f | %.3f | %.3f |", s.Name, s.Queries, s.Stats.Memories, s.Stats.Concepts, s.Stats.Singletons,
			s.Stats.Hubs, s.Stats.Mentions, s.Stats.Facts, s.Linked, s.Reach1, s.Reach2)
	}
	line("\n## Without the graph, and the graph alone")
	table("set | ranking | " + metricsHeader)
	for _, s := range t.Sets {
		for _, base := range bases {
			line("| %s | %s | %s |", s.Name, base, s.Bases[base].row())
		}
		for _, system := range systems[:3] {
			line("| %s | %s | %s |", s.Name, system, s.Alone[system].row())
		}
	}
	line("\n## With the graph")
	line("\nDifference of recall@5 to the same ranking without the graph, in points; **bold** where the interval does not include zero. In brackets: documents among the first ten that only the graph had, and how many of them are relevant.")
	settings := trialRuns("", "")
	header := "set | graph"
	for _, run := range settings {
		header += " | " + run.setting()
	}
	for _, base := range bases {
		line("\n### Added to %s", base)
		table(header)
		for _, s := range t.Sets {
			for _, system := range systems {
				row := fmt.Sprintf("| %s | %s |", s.Name, system)
				for _, run := range s.Runs {
					if run.Base == base && run.System == system {
						row += " " + run.cell() + " |"
					}
				}
				line("%s", row)
			}
		}
	}
	t.verdict(line, table)
	line("\n## Replaced facts")
	line("\nShare of the questions about replaced facts for which a replaced one is ranked above every relevant document.")
	table("set | ranking | share")
	for _, s := range t.Sets {
		names := make([]string, 0, len(s.Stale))
		for name := range s.Stale {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			line("| %s | %s | %.3f |", s.Name, name, s.Stale[name])
		}
	}
	line("\n## Time\n\nMilliseconds of one search, p50 / p95 / p99, one at a time.")
	table("set | lexical | dense | " + strings.Join(systems[:3], " | "))
	for _, s := range t.Sets {
		row := fmt.Sprintf("| %s | %s | %s |", s.Name, s.Latency["lexical"], s.Latency["dense"])
		for _, system := range systems[:3] {
			row += fmt.Sprintf(" %s |", s.Latency[system])
		}
		line("%s", row)
	}
	line("\n## By category\n\nRecall@5 of lexical + dense, and what the graph adds to it, in points: PageRank at the default weight, seeded at the same, and with quota 2.")
	table("set | category | queries | without | PageRank | PageRank, seeded | quota 2")
	for _, s := range t.Sets {
		weighted, seeded, reserved := s.run(baseBoth, systemRank, defaultWeight, 0), s.run(baseBoth, systemSeeded, defaultWeight, 0), s.run(baseBoth, systemRank, 0, 2)
		names := make([]string, 0, len(weighted.Strata))
		for name := range weighted.Strata {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			of := s.Categories[name]
			line("| %s | %s | %d | %.3f | %s | %s | %s |", s.Name, cell(name), of.Queries, of.Recall5, weighted.Strata[name], seeded.Strata[name], reserved.Strata[name])
		}
	}
	return out.Bytes()
}

func (s *TrialSet) run(base, system string, weight float64, quota int) TrialRun {
	i := slices.IndexFunc(s.Runs, func(r TrialRun) bool {
		return r.Base == base && r.System == system && r.Weight == weight && r.Quota == quota
	})
	if i < 0 {
		return TrialRun{}
	}
	return s.Runs[i]
}

// verdict counts, for each setting, the sets that it makes better and worse.
func (t *TrialReport) verdict(line func(string, ...any), table func(string)) {
	var passed []string
	line("\n## Verdict\n\nOf %d sets and conditions, how many each setting makes better and worse in recall@5 or nDCG@10 with an interval on one side of zero. A setting may become the default if it makes at least two better and none worse.", len(t.Sets))
	table("added to | graph | setting | recall@5 better | worse | nDCG@10 better | worse | may be the default")
	for _, base := range bases {
		for _, system := range systems {
			for _, setting := range trialRuns(base, system) {
				var better, worse, better10, worse10 int
				for _, s := range t.Sets {
					run := s.run(base, system, setting.Weight, setting.Quota)
					better, worse = better+count(run.Recall5.Better()), worse+count(run.Recall5.Worse())
					better10, worse10 = better10+count(run.NDCG10.Better()), worse10+count(run.NDCG10.Worse())
				}
				may := "no"
				if better >= 2 && worse == 0 && worse10 == 0 {
					may = "yes"
					if system != systemRandom && system != systemRandomSeeded {
						passed = append(passed, base+" + "+system+", "+setting.setting())
					}
				}
				line("| %s | %s | %s | %d | %d | %d | %d | %s |", base, system, setting.setting(), better, worse, better10, worse10, may)
			}
		}
	}
	current := baseBoth + " + " + systemRank + ", " + TrialRun{Weight: defaultWeight}.setting()
	switch {
	case len(passed) == 0:
		line("\n**In words**: the graph has not earned its place. No setting may be the default.")
	case slices.Contains(passed, current):
		line("\n**In words**: the graph earns its place with %s, which is the default. Of the settings above %d may be.", current, len(passed))
	default:
		line("\n**In words**: the default (%s) has not earned its place. These may be the default: %s.", current, strings.Join(passed, "; "))
	}
	line("\nBy set, %s:\n", current)
	for _, s := range t.Sets {
		line("- %s", s.inWords())
	}
}

// inWords says what the graph does for a set at the default weight, beside what a random one does.
func (s *TrialSet) inWords() string {
	run, seeded := s.run(baseBoth, systemRank, defaultWeight, 0), s.run(baseBoth, systemSeeded, defaultWeight, 0)
	random := s.run(baseBoth, systemRandom, defaultWeight, 0)
	said := fmt.Sprintf("changes nothing that %d queries could show", s.Queries)
	switch {
	case run.Recall5.Worse() || run.NDCG10.Worse():
		said = "does harm"
	case run.Recall5.Better() || run.NDCG10.Better():
		said = "helps"
	}
	return fmt.Sprintf("**%s**: the graph %s. Recall@5 %.3f to %.3f, %s points; nDCG@10 %.3f to %.3f, %s. Seeded, recall@5 %s; exchanged at random, %s. "+
		"%.0f %% of the relevant documents are within one hop, %.0f %% within two; %d documents among the first ten came from the graph alone, %d of them relevant.",
		s.Name, said, s.Bases[baseBoth].Recall5, run.Metrics.Recall5, run.Recall5, s.Bases[baseBoth].NDCG10, run.Metrics.NDCG10, run.NDCG10,
		seeded.Recall5, random.Recall5, 100*s.Reach1, 100*s.Reach2, run.OnlyGraph, run.OnlyGraphRelevant)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t TrialRun) cell() string {
	text := fmt.Sprintf("%+.1f", 100*t.Recall5.Mean)
	if t.Recall5.Better() || t.Recall5.Worse() {
		text = "**" + text + "**"
	}
	return fmt.Sprintf("%s (%d, %d)", text, t.OnlyGraph, t.OnlyGraphRelevant)
}

// String is the difference in points with its interval.
func (i Interval) String() string {
	return fmt.Sprintf("%+.1f [%+.1f, %+.1f]", 100*i.Mean, 100*i.Low, 100*i.High)
}
