package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/triskele/triskele/services/agents/spending"
)

// Spending draws how recorded recalls spent their time, and the predictions for other budgets.
func (s Style) Spending(report *spending.Report) string {
	var b strings.Builder
	intro := fmt.Sprintf("%s of %s, %s to %s UTC: %d degraded, %d failed. They took %s / %s / %s (p50 / p95 / p99)",
		Count(int64(report.Recalls), "recall", "recalls"), Plain(report.Source), report.From.Format("2006-01-02 15:04:05"), report.To.Format("15:04:05"),
		report.Degraded, report.Failed, millis(report.Took.P50), millis(report.Took.P95), millis(report.Took.P99))
	if report.Budget > 0 {
		intro += " of a budget of " + millis(report.Budget)
	}
	b.WriteString(s.Paragraph(intro + "."))
	b.WriteString("\n" + s.Bold(fmt.Sprintf("%-28s  %8s  %11s", "waited for", "share", "slowest 5 %")) + "\n")
	const bar = 20
	for i, part := range report.Parts {
		line := fmt.Sprintf("%s  %8s  %11s  %s", fit(Plain(part.Name), 28), percent(part.Share), percent(part.Tail), strings.Repeat("━", int(bar*part.Share+0.5)))
		if line = strings.TrimRight(line, " "); i == 0 {
			line = s.Warn(line)
		}
		b.WriteString(line + "\n")
	}

	name := max(s.width()-54, 20)
	b.WriteString("\n" + s.Bold(fmt.Sprintf("%s  %7s  %8s  %8s  %8s  %5s  %5s", fit("hop", name), "spans", "p50", "p95", "p99", "self", "slow")) + "\n")
	for _, h := range report.Hops {
		label := strings.Repeat(" ", min(h.Depth, name/2)) + Plain(h.Service+" "+h.Name)
		fmt.Fprintf(&b, "%s  %7d  %8s  %8s  %8s  %5s  %5s\n", fit(label, name), h.Spans, millis(h.Took.P50), millis(h.Took.P95), millis(h.Took.P99), percent(h.Share), percent(h.Tail))
	}
	b.WriteString(s.Dim("self: the hop's own share of the critical path; slow: in the slowest 5 % of recalls") + "\n")

	s.spendingLegs(&b, report.Legs)
	s.budgets(&b, report)
	return b.String()
}

func (s Style) spendingLegs(b *strings.Builder, legs []spending.Leg) {
	b.WriteString("\n" + s.Bold(fmt.Sprintf("%-12s  %8s  %7s  %6s  %10s  %10s  %10s", "leg", "answered", "cut off", "broken", "p50", "p95", "p99")) + "\n")
	cut := false
	for _, l := range legs {
		at := func(v float64, least bool) string {
			if cut = cut || least; least {
				return "≥ " + millis(v)
			}
			return millis(v)
		}
		fmt.Fprintf(b, "%s  %8d  %7d  %6d  %10s  %10s  %10s\n", fit(Plain(l.Name), 12), l.Answered, l.CutOff, l.Broken,
			at(l.Took.P50, l.AtLeast.P50), at(l.Took.P95, l.AtLeast.P95), at(l.Took.P99, l.AtLeast.P99))
	}
	if cut {
		b.WriteString(s.Dim("≥: a lower bound, since searches of that time were cut off by their budget") + "\n")
	}
}

// budgets draws the tables by budget: dropped legs, and then each measure of quality.
func (s Style) budgets(b *strings.Builder, report *spending.Report) {
	if len(report.Budgets) == 0 {
		return
	}
	table := func(names []string, about string, cell func(p spending.Point, name string) string) {
		column := func(text string) string { return strings.Repeat(" ", max(14-utf8.RuneCountInString(text), 0)) + text }
		header := fmt.Sprintf("%-9s", "budget")
		for _, name := range names {
			header += column(strings.TrimRight(fit(Plain(name), 12), " "))
		}
		b.WriteString("\n" + s.Bold(header) + "   " + about + "\n")
		for _, p := range report.Budgets {
			fmt.Fprintf(b, "%-9s", millis(p.Budget))
			for _, name := range names {
				b.WriteString(column(cell(p, name)))
			}
			b.WriteString("\n")
		}
	}
	open := false
	var legs []string
	for _, l := range report.Legs {
		legs = append(legs, l.Name)
	}
	table(legs, "share of recalls that drop the leg", func(p spending.Point, leg string) string {
		d := p.Legs[leg]
		if d.Unknown == 0 {
			return percent(d.Share)
		}
		open = true
		return strings.TrimSuffix(percent(d.Share), " %") + "–" + percent(d.Share+d.Unknown)
	})
	if open {
		b.WriteString(s.Dim("a range: some searches were cut off sooner, and might or might not have ended in time") + "\n")
	}
	for _, measure := range report.Measures() {
		table(report.Sets(), measure, func(p spending.Point, set string) string {
			r := p.Quality[set][measure]
			low, high := fmt.Sprintf("%.3f", r.Low), fmt.Sprintf("%.3f", r.High)
			if low == high {
				return low
			}
			return low + "–" + high
		})
	}
	if report.Quality != "" {
		b.WriteString(s.Dim("from the evaluation "+Plain(report.Quality)+", without the legs that a recall loses; a recall without any leg counts 0") + "\n")
	}
}

// percent formats a share, with a decimal below 10 %.
func percent(share float64) string {
	if v := 100 * share; v > 0 && v < 9.95 {
		return fmt.Sprintf("%.1f %%", v)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
