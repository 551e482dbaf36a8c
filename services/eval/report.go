package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// all is the stratum that every query belongs to.
const all = "all"

// Report is the result of a run.
type Report struct {
	Command  string      `json:"command,omitempty"`
	Commit   string      `json:"commit,omitempty"`
	Date     string      `json:"date"` // UTC
	Machine  Machine     `json:"machine"`
	Store    string      `json:"store"`
	Database string      `json:"database"` // engine and version
	Settings Settings    `json:"settings"`
	Sets     []SetReport `json:"sets"`
	// Comparisons with the run in Options.Compare.
	Comparisons []Comparison `json:"comparisons,omitempty"`
}

// Settings are the settings that rankings and latencies depend on.
type Settings struct {
	Embedder     string        `json:"embedder"`
	Fusion       string        `json:"fusion"` // method with its parameters
	Legs         []LegSettings `json:"legs"`
	Limit        int           `json:"limit"`
	Concurrency  int           `json:"concurrency"`
	QueriesLimit int           `json:"queries_limit"` // per set; 0 means all
	WarmUp       int           `json:"warm_up"`       // queries
}

// LegSettings are the gateway's defaults for a leg.
type LegSettings struct {
	Leg    string  `json:"leg"`
	Weight float64 `json:"weight"`
	Trust  float64 `json:"trust"`
	Depth  int     `json:"depth"`
}

// SetReport is the result for one set.
type SetReport struct {
	Name            string         `json:"name"`
	Documents       int            `json:"documents"`
	Namespaces      int            `json:"namespaces"`
	Queries         int            `json:"queries"`              // that were asked
	Unjudged        int            `json:"queries_unjudged"`     // left out, because they have no relevant document
	Unreachable     int            `json:"relevant_unreachable"` // relevant documents that are not in the query's namespace
	ImportSeconds   float64        `json:"import_seconds"`
	ImportPerSecond float64        `json:"import_per_second"`      // documents
	CatchUpSeconds  float64        `json:"index_catch_up_seconds"` // from the end of the import until all legs have indexed everything
	Configs         []ConfigReport `json:"configs"`
}

// ConfigReport is the result of one configuration on one set.
type ConfigReport struct {
	Name    string      `json:"name"`
	Strata  []Stratum   `json:"strata"`  // "all" first, then by name
	Latency Percentiles `json:"latency"` // of recalls, measured by the client
	Legs    []LegReport `json:"legs"`
}

// Stratum is the result for the queries of one category.
type Stratum struct {
	Name    string  `json:"name"`
	Queries int     `json:"queries"`
	Metrics Metrics `json:"metrics"`
}

// LegReport is the result of a leg in one configuration.
type LegReport struct {
	Leg     string         `json:"leg"`
	States  map[string]int `json:"states"`  // number of searches by state
	Latency Percentiles    `json:"latency"` // of the searches that were started, measured by the gateway
}

func (r *runner) newReport() *Report {
	report := &Report{
		Command: r.options.Command, Commit: Commit(), Date: time.Now().UTC().Format(time.DateOnly), Machine: ThisMachine(), Store: r.options.Store,
		Settings: Settings{Limit: limit, Concurrency: r.options.Concurrency, QueriesLimit: r.options.Limit, WarmUp: warmUp},
	}
	if r.options.Gateway != "" {
		return report // the settings of another gateway are unknown
	}
	model := r.options.Embedder.Model()
	report.Settings.Embedder = fmt.Sprintf("%s/%s, %d dimensions", model.Provider, model.Name, model.Dimensions)
	report.Settings.Fusion = gateway.DefaultConfig().Fusion.String()
	for _, leg := range gateway.DefaultLegs(nil) {
		report.Settings.Legs = append(report.Settings.Legs, LegSettings{Leg: leg.Name, Weight: leg.Weight, Trust: leg.Trust, Depth: leg.Depth})
	}
	return report
}

func summarize(c config, queries []Query, answers []answer) ConfigReport {
	byStratum := map[string][]Metrics{}
	var spent []time.Duration
	legSpent := map[string][]time.Duration{}
	legStates := map[string]map[string]int{}
	for i, query := range queries {
		m := Measure(answers[i].IDs, query.Grades)
		byStratum[all] = append(byStratum[all], m)
		if query.Stratum != "" && query.Stratum != all {
			byStratum[query.Stratum] = append(byStratum[query.Stratum], m)
		}
		spent = append(spent, answers[i].spent)
		for _, leg := range answers[i].legs {
			if legStates[leg.GetLeg()] == nil {
				legStates[leg.GetLeg()] = map[string]int{}
			}
			legStates[leg.GetLeg()][stateName(leg.GetState())]++
			if leg.GetState() != triskelev1.LegState_LEG_STATE_SKIPPED {
				legSpent[leg.GetLeg()] = append(legSpent[leg.GetLeg()], leg.GetSpent().AsDuration())
			}
		}
	}
	out := ConfigReport{Name: c.name, Latency: NewPercentiles(spent)}
	for name, metrics := range byStratum {
		out.Strata = append(out.Strata, Stratum{Name: name, Queries: len(metrics), Metrics: Mean(metrics)})
	}
	slices.SortFunc(out.Strata, func(a, b Stratum) int {
		switch {
		case a.Name == all:
			return -1
		case b.Name == all:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for _, leg := range legNames() {
		out.Legs = append(out.Legs, LegReport{Leg: leg, States: legStates[leg], Latency: NewPercentiles(legSpent[leg])})
	}
	return out
}

func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }

// write writes report.json and report.md.
func (r *Report) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "report.json"), append(encoded, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "report.md"), r.Markdown(), 0o644)
}

// markdown collects the text of a report.
type markdown struct{ bytes.Buffer }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// table begins a table. Its header has the names of the columns, separated by bars.
func (m *markdown) table(header string) {
	m.line("\n| %s |\n|%s", header, strings.Repeat("---|", strings.Count(header, "|")+1))
}

// Markdown returns the report for people.
func (r *Report) Markdown() []byte {
	var out markdown
	for _, write := range []func(*markdown){r.writeSettings, r.writeQuality, r.writeLatency, r.writeStates, r.writeImport, r.writeComparisons} {
		write(&out)
	}
	return out.Bytes()
}

func (r *Report) writeSettings(out *markdown) {
	line := out.line
	line("# Recall on %s\n", r.Database)
	if r.Command != "" {
		line("    %s\n", r.Command)
	}
	if r.Commit != "" {
		line("- Commit: %s", r.Commit)
	}
	line("- Date: %s", r.Date)
	line("- Machine: %s", r.Machine)
	if r.Settings.Legs == nil {
		line("- Fusion and embedder: those of the gateway")
	} else {
		legs := make([]string, len(r.Settings.Legs))
		for i, leg := range r.Settings.Legs {
			legs[i] = fmt.Sprintf("%s %g (trust %g, depth %d)", leg.Leg, leg.Weight, leg.Trust, leg.Depth)
		}
		line("- Fusion: %s, weights %s, first %d kept", r.Settings.Fusion, strings.Join(legs, ", "), r.Settings.Limit)
		line("- Embedder: %s", r.Settings.Embedder)
	}
	line("- Recalls at a time: %d, after a warm-up of %d queries; only ids are fetched", r.Settings.Concurrency, r.Settings.WarmUp)
	if r.Settings.QueriesLimit > 0 {
		line("- Only the first %d queries of each set", r.Settings.QueriesLimit)
	}
}

func (r *Report) writeQuality(out *markdown) {
	out.line("\n## Quality\n\nMeans over all queries. Success is the share of queries with any relevant document among the first k.")
	out.table("set | configuration | queries | " + metricsHeader)
	for _, set := range r.Sets {
		for _, c := range set.Configs {
			out.line("| %s | %s | %d | %s |", set.Name, c.Name, c.Strata[0].Queries, c.Strata[0].Metrics.row())
		}
	}
	for _, set := range r.Sets {
		if len(set.Configs[0].Strata) < 3 { // a single stratum has the same queries as "all"
			continue
		}
		out.line("\n### %s by category", set.Name)
		out.table("category | queries | configuration | " + metricsHeader)
		for i, stratum := range set.Configs[0].Strata[1:] {
			for _, c := range set.Configs {
				out.line("| %s | %d | %s | %s |", cell(stratum.Name), stratum.Queries, c.Name, c.Strata[i+1].Metrics.row())
			}
		}
	}
}

func (r *Report) writeLatency(out *markdown) {
	out.line("\n## Latency\n\nMilliseconds, p50 / p95 / p99: of the whole recall, measured by the client, and of each leg, measured by the gateway.")
	out.table("set | configuration | recall | " + strings.Join(legNames(), " | "))
	for _, set := range r.Sets {
		for _, c := range set.Configs {
			row := []string{c.Latency.String()}
			for _, leg := range c.Legs {
				row = append(row, leg.Latency.String())
			}
			out.line("| %s | %s | %s |", set.Name, c.Name, strings.Join(row, " | "))
		}
	}
}

func (r *Report) writeStates(out *markdown) {
	out.line("\n## States of the legs")
	states := r.states()
	out.table("set | configuration | leg | " + strings.Join(states, " | "))
	for _, set := range r.Sets {
		for _, c := range set.Configs {
			for _, leg := range c.Legs {
				row := make([]string, len(states))
				for i, state := range states {
					row[i] = fmt.Sprint(leg.States[state])
				}
				out.line("| %s | %s | %s | %s |", set.Name, c.Name, leg.Leg, strings.Join(row, " | "))
			}
		}
	}
}

func (r *Report) writeImport(out *markdown) {
	out.line("\n## Import\n\nCatch-up is the time from the end of the import until every leg had indexed everything.")
	out.table("set | documents | namespaces | queries | without judgment | unreachable judgments | import s | documents/s | catch-up s")
	for _, set := range r.Sets {
		out.line("| %s | %d | %d | %d | %d | %d | %.2f | %.0f | %.2f |", set.Name, set.Documents, set.Namespaces, set.Queries, set.Unjudged,
			set.Unreachable, set.ImportSeconds, set.ImportPerSecond, set.CatchUpSeconds)
	}
}

func (r *Report) writeComparisons(out *markdown) {
	if len(r.Comparisons) == 0 {
		return
	}
	out.line("\n## Agreement with the other run\n\nEach query's first ten documents are compared. Same: the share of queries with the same documents in the " +
		"same order. Same but for ties: also counts another order of tied documents (1e-4 relative). Overlap: the mean share of documents in both.")
	out.table("set | configuration | queries | same | same but for ties | overlap")
	for _, c := range r.Comparisons {
		out.line("| %s | %s | %d | %.4f | %.4f | %.4f |", c.Set, c.Config, c.Queries, c.Same, c.Tied, c.Overlap)
	}
}

// states returns the states that occur, in the order of the API.
func (r *Report) states() []string {
	var names []string
	for number := range int32(len(triskelev1.LegState_name)) {
		name := stateName(triskelev1.LegState(number))
		if slices.ContainsFunc(r.Sets, func(set SetReport) bool {
			return slices.ContainsFunc(set.Configs, func(c ConfigReport) bool {
				return slices.ContainsFunc(c.Legs, func(leg LegReport) bool { return leg.States[name] > 0 })
			})
		}) {
			names = append(names, name)
		}
	}
	return names
}

var metricsHeader = strings.Join(MetricNames(), " | ")

func (m Metrics) row() string {
	values := make([]string, len(measures))
	for i, name := range MetricNames() {
		values[i] = fmt.Sprintf("%.3f", m.Value(name))
	}
	return strings.Join(values, " | ")
}

// String returns "p50 / p95 / p99", or "–" without durations.
func (p Percentiles) String() string {
	if p == (Percentiles{}) {
		return "–"
	}
	return fmt.Sprintf("%.2f / %.2f / %.2f", p.P50, p.P95, p.P99)
}

// cell escapes a text for a table.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text) }
