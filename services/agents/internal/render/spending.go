package render

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/triskele/triskele/services/agents/spending"
)

//go:embed spending.tmpl
var spendingText string

// Spending draws how recorded recalls spent their time, and the predictions for other budgets.
func (s Style) Spending(report *spending.Report) string {
	const bar = 20
	name := max(s.width()-54, 20)
	t := template.Must(template.New("spending").Funcs(template.FuncMap{
		"bold": s.Bold, "dim": s.Dim, "warn": s.Warn, "plain": Plain, "ms": millis, "percent": percent,
		"paragraph": func(text string) string { return s.Paragraph(text) },
		"trim":      func(text string) string { return strings.TrimRight(text, " ") },
		"fit":       func(text string, width int) string { return fit(Plain(text), width) },
		"recalls":   func(n int) string { return Count(int64(n), "recall", "recalls") },
		"bar":       func(share float64) string { return strings.Repeat("━", int(bar*share+0.5)) },
		"hop": func(depth int, text string) string {
			return fit(strings.Repeat(" ", min(depth, name/2))+Plain(text), name)
		},
		"column": func(text string) string { return strings.Repeat(" ", max(14-utf8.RuneCountInString(text), 0)) + text },
		"least": func(least bool, v float64) string {
			if least {
				return "≥ " + millis(v)
			}
			return millis(v)
		},
		"dropped": func(d spending.Dropped) string {
			if d.Unknown == 0 {
				return percent(d.Share)
			}
			return strings.TrimSuffix(percent(d.Share), " %") + "–" + percent(d.Share+d.Unknown)
		},
		"between": func(r spending.Range) string {
			low, high := fmt.Sprintf("%.3f", r.Low), fmt.Sprintf("%.3f", r.High)
			if low == high {
				return low
			}
			return low + "–" + high
		},
	}).Parse(spendingText))
	var b strings.Builder
	if err := t.Execute(&b, report); err != nil {
		panic("spending.tmpl: " + err.Error()) // it does not fit this package
	}
	return b.String()
}

func millis(ms float64) string { return Duration(time.Duration(ms * float64(time.Millisecond))) }

// percent formats a share, with a decimal below 10 %.
func percent(share float64) string {
	if v := 100 * share; v > 0 && v < 9.95 {
		return fmt.Sprintf("%.1f %%", v)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
