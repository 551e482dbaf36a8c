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
	// band is a line with the lower values, and one with the upper values if they are visibly higher.
	band := func(to *chart.Chart, colour int, low, high string, least float64, values func(Point) (low, high float64)) {
		lower, upper := chart.Series{Name: low, Colour: colour}, chart.Series{Name: high, Colour: colour, Dashed: true}
		differ := false
		for _, p := range report.Budgets {
			l, h := values(p)
			lower.Points = append(lower.Points, chart.Point{X: p.Budget, Y: l})
			upper.Points = append(upper.Points, chart.Point{X: p.Budget, Y: h})
			differ = differ || h-l > least
		}
		if to.Series = append(to.Series, lower); differ {
			to.Series = append(to.Series, upper)
		}
	}
	drops := chart.Chart{X: budgets, Y: chart.Axis{Label: "recalls in which the leg would be dropped (%)", Ticks: []float64{0, 20, 40, 60, 80, 100}}}
	for i, leg := range report.Legs {
		band(&drops, i, leg.Name, leg.Name+", perhaps", 0, func(p Point) (low, high float64) {
			d := p.Legs[leg.Name]
			return 100 * d.Share, 100 * (d.Share + d.Unknown)
		})
	}
	titles, charts = append(titles, "Dropped legs by budget"), append(charts, drops)
	for _, measure := range report.Measures() {
		quality := chart.Chart{X: budgets, Y: chart.Axis{Label: measure, Ticks: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}}
		for i, set := range report.Sets() {
			band(&quality, i, set, set+", at best", 0.0005, func(p Point) (low, high float64) {
				r := p.Quality[set][measure]
				return r.Low, r.High
			})
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

// HTML writes the report as one page without other files.
func (report *Report) HTML(w io.Writer) error {
	t := template.Must(template.New("report").Funcs(template.FuncMap{
		"ms":      func(v float64) string { return fmt.Sprintf("%.3g", v) },
		"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
		"three":   func(v float64) string { return fmt.Sprintf("%.3f", v) },
		"join":    func(legs []string) string { return strings.Join(legs, ", ") },
		"sum":     func(a, b float64) float64 { return a + b },
		"indent":  func(depth int) string { return strings.Repeat("\u2003", depth) },
	}).Parse(page))
	return t.Execute(w, struct {
		*Report
		Plot template.HTML
	}{report, template.HTML(report.SVG())}) // made by chart, which escapes names
}
