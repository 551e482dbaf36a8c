package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/chart"
	"github.com/triskele/triskele/tests/lab/stats"
)

// Outcome is what a report's JSON file holds: what a default can be checked against.
type Outcome struct {
	Plan       string     `json:"plan"`
	Provenance Provenance `json:"provenance"`
	Verdicts   []Verdict  `json:"verdicts"`
	Lost       []Lost     `json:"lost,omitempty"` // if the plan has a degradation
}

// Write writes the report, NAME.md with its plots, and NAME.json into a folder. Neither has a date or a time: the same
// plan, data and program give the same files.
func (s *Study) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	verdicts := s.Verdicts()
	text, err := json.MarshalIndent(Outcome{Plan: s.Plan.Name, Provenance: s.Provided, Verdicts: verdicts, Lost: s.lost()}, "", "  ")
	if err != nil {
		return err
	}
	files := map[string][]byte{s.Plan.Name + ".json": append(text, '\n')}
	files[s.Plan.Name+".md"] = s.markdown(verdicts, files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// markdown is the report; its plots are added to files.
func (s *Study) markdown(verdicts []Verdict, files map[string][]byte) []byte {
	w := &writer{}
	w.line("# %s\n\n%s", s.Plan.Title, strings.TrimSpace(s.Plan.About))
	w.line("\n    make evidence DATA=DIR PLANS=%s\n", s.Plan.Name)
	w.line("- %s, lexical scorer %s, embedder %s; %d hits, no importance in the data", s.Provided.Store, s.Provided.Scorer, s.Provided.Embedder, limit)
	w.line("- Every setting goes through the gateway and its legs as an operator's policy. Legs are asked each question once.")
	w.line("- Halves: by a hash of its name a query is for choosing or for judging. Cells are chosen by the mean of the sets; the whole system makes up one half of it, what is left when a leg is lost the other.")
	if t := s.Plan.Rule.Tolerance; t > 0 {
		w.line("- Of cells that fall behind the one in use by at most %g on every set, whole or with a leg lost, if there are any", t)
	}
	w.line("- Intervals: paired bootstrap, %d samples, %g %%; p corrected by Holm's method over all comparisons of a kind in the plan", samples, 100*(1-s.Plan.Rule.Level))
	lost := ""
	if len(s.Plan.Rule.Without) > 0 {
		lost = ", and on no set when one of " + strings.Join(s.Plan.Rule.Without, ", ") + " is lost"
	}
	w.line("- Rule, written before the run: significantly better in %s on %d sets at least; significantly worse on no set and in no category (of ten queries or more)%s",
		s.Plan.Metric, s.Plan.Rule.Better, lost)
	w.line("- Plan %s; code of commit %s", short(s.Provided.Plan), cmp.Or(s.Provided.Revision, "unknown"))
	w.line("- Machine: %s", s.Provided.Machine)
	w.table("set | documents | queries | to judge by | checksum")
	for _, set := range s.sets {
		judging := 0
		for _, q := range set.Queries {
			if !stats.Tuning(set.Name, q.ID) {
				judging++
			}
		}
		w.line("| %s | %d | %d | %d | %s |", set.Name, len(set.Memories), len(set.Queries), judging, short(s.Provided.Data[set.Name]))
	}
	if len(verdicts) > 0 {
		w.line("\n## Verdicts")
		w.table("hypothesis | in use | best candidate | verdict | because")
		for _, v := range verdicts {
			w.line("| %s | %s | %s | **%s** | %s |", v.Hypothesis, v.Baseline, v.Candidate, v.word(), v.Why)
		}
		for i, h := range s.Plan.Hypotheses {
			s.hypothesis(w, h, verdicts[i])
		}
	}
	s.configurations(w, files)
	s.quality(w)
	s.drawDegradation(w, files)
	return w.Bytes()
}

// String is the verdict in a sentence.
func (v Verdict) String() string {
	return fmt.Sprintf("%s: %s (%q against %q): %s", v.Hypothesis, v.word(), v.Candidate, v.Baseline, v.Why)
}

func (v Verdict) word() string {
	switch {
	case v.Adopted:
		return "adopt"
	case v.Candidate == v.Baseline:
		return "keep: nothing is better"
	}
	return "keep"
}

// hypothesis writes what a verdict rests on.
func (s *Study) hypothesis(w *writer, h Hypothesis, v Verdict) {
	w.line("\n### %s\n\n%s", h.Name, strings.TrimSpace(h.Claim))
	header := "set | " + v.Baseline + " | " + v.Candidate + " | difference of " + s.Plan.Metric + " | p"
	for _, leg := range slices.Sorted(maps.Keys(v.Without)) {
		header += " | without " + leg
	}
	w.table(header)
	for _, set := range s.sets {
		row := []string{set.Name}
		for _, name := range []string{v.Baseline, v.Candidate} {
			row = append(row, fmt.Sprintf("%.3f", mean(half(set, s.runs[run{set.Name, name}], s.Plan.Metric, false))))
		}
		row = append(row, v.Sets[set.Name].String(), fmt.Sprintf("%.4f", v.Sets[set.Name].Adjusted))
		for _, leg := range slices.Sorted(maps.Keys(v.Without)) {
			row = append(row, v.Without[leg][set.Name].String())
		}
		w.line("| %s |", strings.Join(row, " | "))
	}
	first := true
	for _, set := range s.sets {
		for _, stratum := range slices.Sorted(maps.Keys(v.Strata[set.Name])) {
			d := v.Strata[set.Name][stratum]
			if first {
				w.table("set | category | queries | difference | p")
				first = false
			}
			w.line("| %s | %s | %d | %s | %.4f |", set.Name, cellText(stratum), d.Pairs, d, d.Adjusted)
		}
	}
}

// String is the mean with its interval.
func (d Difference) String() string {
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f]", d.Mean, d.Low, d.High)
}

// configurations writes every cell's metric on each set, and draws grids of one axis of numbers.
func (s *Study) configurations(w *writer, files map[string][]byte) {
	w.line("\n## All configurations\n\n%s on the judging halves; what cells are chosen by comes last.", s.Plan.Metric)
	w.table("configuration | " + strings.Join(s.Plan.Sets, " | ") + " | to choose by")
	for _, c := range s.cells {
		row := []string{cellText(c.name)}
		for _, set := range s.sets {
			row = append(row, fmt.Sprintf("%.3f", mean(half(set, s.runs[run{set.Name, c.name}], s.Plan.Metric, false))))
		}
		choose := "–"
		if s.judged(c) {
			choose = fmt.Sprintf("%.4f", s.tuned(c).value())
		}
		w.line("| %s | %s |", strings.Join(row, " | "), choose)
	}
	for _, configuration := range s.Plan.Configurations {
		if plot := s.sweep(configuration); plot != "" {
			file := s.Plan.Name + "-" + unsafe.ReplaceAllString(configuration.Name, "-") + ".svg"
			files[file] = []byte(plot)
			w.line("\n![%s of %s by %s](%s)", s.Plan.Metric, configuration.Name, configuration.Vary[0].label(), file)
		}
	}
}

// sweep draws a grid of one axis, "" for any other.
func (s *Study) sweep(configuration Configuration) string {
	if len(configuration.Vary) != 1 || len(configuration.Vary[0].Values) < 3 {
		return ""
	}
	c := chart.Chart{X: chart.Axis{Label: configuration.Name + ": " + configuration.Vary[0].label()}, Y: chart.Axis{Label: s.Plan.Metric + ", judging halves"}}
	for i, set := range s.sets {
		line := chart.Series{Name: set.Name, Colour: i}
		for _, at := range s.cells {
			if at.of != configuration.Name {
				continue
			}
			x, err := strconv.ParseFloat(fmt.Sprint(at.values[0]), 64)
			if err != nil {
				return ""
			}
			line.Points = append(line.Points, chart.Point{X: x, Y: mean(half(set, s.runs[run{set.Name, at.name}], s.Plan.Metric, false))})
		}
		c.Series = append(c.Series, line)
	}
	return c.SVG()
}

// quality writes every measure of the configurations that are no grids, over all queries.
func (s *Study) quality(w *writer) {
	w.line("\n## All measures\n\nOver all queries, of the configurations that are no grids and of the candidates. Last, how many of the first %d hits say what one before them says (three-word resemblance of at least %g), and how many have been replaced by another document, where the set knows.", shown, alike)
	w.table("set | configuration | " + strings.Join(eval.MetricNames(), " | ") + " | duplicates | replaced")
	for _, set := range s.sets {
		for _, c := range s.cells {
			if len(c.values) > 0 && !slices.ContainsFunc(s.Plan.Hypotheses, func(h Hypothesis) bool { return h.Baseline == c.name || s.best(h).name == c.name }) {
				continue
			}
			all := eval.Mean(s.runs[run{set.Name, c.name}])
			row := []string{set.Name, cellText(c.name)}
			for _, metric := range eval.MetricNames() {
				row = append(row, fmt.Sprintf("%.3f", all.Value(metric)))
			}
			wasted := s.waste[run{set.Name, c.name}]
			w.line("| %s | %.2f | %.2f |", strings.Join(row, " | "), wasted.duplicates, wasted.stale)
		}
	}
}

func (s *Study) drawDegradation(w *writer, files map[string][]byte) {
	curve := s.degradation()
	if curve == nil {
		return
	}
	w.line("\n## When legs are lost\n\nOf %s. First with one leg lost in every recall, then the expected quality when each leg is lost in a share of recalls, independently of the others; a recall without any leg counts 0.", s.Plan.Degradation)
	columns := make([]string, 0, len(s.Plan.Sets)*len(degradationMetrics))
	for _, set := range s.Plan.Sets {
		for _, metric := range degradationMetrics {
			columns = append(columns, set+" "+metric)
		}
	}
	w.table("lost | " + strings.Join(columns, " | "))
	for _, lost := range s.lost() {
		row := []string{cmp.Or(strings.Join(lost.Legs, ", "), "none")}
		for _, set := range s.sets {
			for _, metric := range degradationMetrics {
				row = append(row, fmt.Sprintf("%.3f", lost.Means[set.Name][metric]))
			}
		}
		w.line("| %s |", strings.Join(row, " | "))
	}
	w.table("each leg lost in | " + strings.Join(columns, " | "))
	c := chart.Chart{X: chart.Axis{Label: "share of recalls in which each leg is lost"}, Y: chart.Axis{Label: strings.Join(degradationMetrics, " and ")}, LegendSize: 250}
	for i, set := range s.Plan.Sets {
		for j, metric := range degradationMetrics {
			line := chart.Series{Name: set + " " + metric, Colour: i, Dashed: j > 0}
			for _, at := range curve {
				line.Points = append(line.Points, chart.Point{X: at.rate, Y: at.means[set][metric]})
			}
			c.Series = append(c.Series, line)
		}
	}
	for _, at := range curve {
		row := []string{fmt.Sprintf("%.0f %%", 100*at.rate)}
		for _, set := range s.Plan.Sets {
			for _, metric := range degradationMetrics {
				row = append(row, fmt.Sprintf("%.3f", at.means[set][metric]))
			}
		}
		w.line("| %s |", strings.Join(row, " | "))
	}
	file := s.Plan.Name + "-degradation.svg"
	files[file] = []byte(c.SVG())
	w.line("\n![Quality by share of lost legs](%s)", file)
}

func short(checksum string) string { return checksum[:12] }

// cellText keeps foreign text from breaking a table.
func cellText(text string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text) }

type writer struct{ bytes.Buffer }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) table(header string) {
	w.line("\n| %s |\n|%s", header, strings.Repeat("---|", strings.Count(header, "|")+1))
}
