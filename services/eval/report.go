package eval

import (
	"bytes"
	_ "embed" // the template is part of the program
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
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
	model := r.options.Embedder.Model()
	report.Settings.Embedder = fmt.Sprintf("%s/%s, %d dimensions", model.Provider, model.Name, model.Dimensions)
	report.Settings.Fusion = gateway.DefaultConfig().Fusion.String()
	for _, leg := range gateway.DefaultLegs(nil) {
		report.Settings.Legs = append(report.Settings.Legs, LegSettings{Leg: leg.Name, Weight: leg.Weight, Trust: leg.Trust, Depth: leg.Depth})
	}
	return report
}

func summarize(c config, queries []Query, answers []answer) ConfigReport {
	var measured []Metrics
	byStratum := map[string][]Metrics{}
	var spent []time.Duration
	legSpent := map[string][]time.Duration{}
	legStates := map[string]map[string]int{}
	for i, query := range queries {
		m := Measure(answers[i].IDs, query.Grades)
		measured = append(measured, m)
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
	out := ConfigReport{Name: c.name, Strata: []Stratum{{all, len(measured), Mean(measured)}}, Latency: NewPercentiles(spent)}
	for _, name := range slices.Sorted(maps.Keys(byStratum)) {
		out.Strata = append(out.Strata, Stratum{name, len(byStratum[name]), Mean(byStratum[name])})
	}
	for _, leg := range legNames() {
		out.Legs = append(out.Legs, LegReport{Leg: leg, States: legStates[leg], Latency: NewPercentiles(legSpent[leg])})
	}
	return out
}

func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }

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

//go:embed report.md.tmpl
var reportTemplate string

// Markdown returns the report for people.
func (r *Report) Markdown() []byte {
	page := template.Must(template.New("report").Funcs(template.FuncMap{
		"cell":  strings.NewReplacer("|", `\|`, "\n", " ").Replace,
		"bars":  func(columns []string) string { return strings.Join(columns, " | ") },
		"table": header, "states": r.states, "legs": legNames, "measures": MetricNames,
	}).Parse(reportTemplate))
	var out bytes.Buffer
	if err := page.Execute(&out, r); err != nil {
		panic(err) // the template is part of the program
	}
	return out.Bytes()
}

// header begins a table. A column may stand for a list of them.
func header(columns ...any) string {
	var names []string
	for _, column := range columns {
		if list, ok := column.([]string); ok {
			names = append(names, list...)
		} else {
			names = append(names, fmt.Sprint(column))
		}
	}
	return "\n| " + strings.Join(names, " | ") + " |\n|" + strings.Repeat("---|", len(names)) + "\n"
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

// String returns "p50 / p95 / p99", or "–" without durations.
func (p Percentiles) String() string {
	if p == (Percentiles{}) {
		return "–"
	}
	return fmt.Sprintf("%.2f / %.2f / %.2f", p.P50, p.P95, p.P99)
}
