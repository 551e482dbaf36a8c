package spending

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/triskele/triskele/services/agents/spending/chart"
)

// SVG draws, by budget, how often each leg would be dropped and, if the report has it, the quality that is left.
func (report *Report) SVG() string { return chart.Stack(report.plots()) }

func (report *Report) plots() (titles []string, charts []chart.Chart) {
	if len(report.Budgets) == 0 {
		return nil, nil
	}
	budgets := chart.Axis{Label: "budget of a recall (ms)", Log: true}
	for _, p := range report.Budgets {
		budgets.Ticks = append(budgets.Ticks, p.Budget)
	}
	drops := chart.Chart{X: budgets, Y: chart.Axis{Label: "recalls in which the leg would be dropped (%)", Ticks: []float64{0, 20, 40, 60, 80, 100}}}
	for i, leg := range report.Legs {
		sure, perhaps := chart.Series{Name: leg.Name, Colour: i}, chart.Series{Name: leg.Name + ", perhaps", Colour: i, Dashed: true}
		anyUnknown := false
		for _, p := range report.Budgets {
			d := p.Legs[leg.Name]
			sure.Points = append(sure.Points, chart.Point{X: p.Budget, Y: 100 * d.Share})
			perhaps.Points = append(perhaps.Points, chart.Point{X: p.Budget, Y: 100 * (d.Share + d.Unknown)})
			anyUnknown = anyUnknown || d.Unknown > 0
		}
		if drops.Series = append(drops.Series, sure); anyUnknown {
			drops.Series = append(drops.Series, perhaps)
		}
	}
	titles, charts = append(titles, "Dropped legs by budget"), append(charts, drops)
	for _, measure := range report.Measures() {
		quality := chart.Chart{X: budgets, Y: chart.Axis{Label: measure, Ticks: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}}
		for i, set := range report.Sets() {
			low, high := chart.Series{Name: set, Colour: i}, chart.Series{Name: set + ", at best", Colour: i, Dashed: true}
			differ := false
			for _, p := range report.Budgets {
				r := p.Quality[set][measure]
				low.Points = append(low.Points, chart.Point{X: p.Budget, Y: r.Low})
				high.Points = append(high.Points, chart.Point{X: p.Budget, Y: r.High})
				differ = differ || r.High-r.Low > 0.0005
			}
			if quality.Series = append(quality.Series, low); differ {
				quality.Series = append(quality.Series, high)
			}
		}
		titles, charts = append(titles, measure+" by budget"), append(charts, quality)
	}
	return titles, charts
}

// Sets returns the sets of queries of the evaluation.
func (report *Report) Sets() []string {
	if len(report.Budgets) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(report.Budgets[0].Quality))
}

// Measures returns the evaluation's measures of quality.
func (report *Report) Measures() []string {
	sets := report.Sets()
	if len(sets) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(report.Budgets[0].Quality[sets[0]]))
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"ms":      func(v float64) string { return fmt.Sprintf("%.3g", v) },
	"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	"three":   func(v float64) string { return fmt.Sprintf("%.3f", v) },
	"join":    func(legs []string) string { return strings.Join(legs, ", ") },
	"sum":     func(a, b float64) float64 { return a + b },
	"indent":  func(depth int) string { return strings.Repeat("\u2003", depth) },
}).Parse(page))

// HTML writes the report as one page without other files.
func (report *Report) HTML(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Report
		Plot template.HTML
	}{report, template.HTML(report.SVG())}) // made by chart, which escapes names
}
