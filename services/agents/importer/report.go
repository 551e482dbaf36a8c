package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// shown is how many positions the text of a report names for each reason.
const shown = 3

// Outcome counts what became of the positions of a batch, or of an import.
type Outcome struct {
	Stored    int64 `json:"stored"`
	Unchanged int64 `json:"unchanged"`
	Updated   int64 `json:"updated"`
	Forgotten int64 `json:"forgotten"` // memories, not positions, that the source no longer has
	Skipped   int64 `json:"skipped"`
	// Problems are the positions that were not imported, or not completely.
	Problems []Problem `json:"problems"`
}

// Done returns the number of positions.
func (o *Outcome) Done() int64 { return o.Stored + o.Unchanged + o.Updated + o.Skipped }

func (o *Outcome) add(more Outcome) {
	o.Stored += more.Stored
	o.Unchanged += more.Unchanged
	o.Updated += more.Updated
	o.Forgotten += more.Forgotten
	o.Skipped += more.Skipped
	o.Problems = append(o.Problems, more.Problems...)
}

// Report is the outcome of an import.
type Report struct {
	DryRun bool `json:"dry_run"`
	Outcome
	// Namespaces are the namespaces with memories of the import.
	Namespaces map[string]bool `json:"-"`
}

// String returns the counts, and the first positions with problems, grouped by reason.
func (r *Report) String() string {
	var b strings.Builder
	if r.DryRun {
		b.WriteString("dry run: ")
	}
	fmt.Fprintf(&b, "stored %d, unchanged %d", r.Stored, r.Unchanged)
	for _, more := range []struct {
		name string
		n    int64
	}{{"updated", r.Updated}, {"forgotten", r.Forgotten}, {"skipped", r.Skipped}} {
		if more.n > 0 {
			fmt.Fprintf(&b, ", %s %d", more.name, more.n)
		}
	}
	b.WriteString("\n")
	byReason := map[string][]Problem{}
	var reasons []string
	for _, p := range r.Problems {
		reason := "imported, but " + p.Reason
		if p.Skipped {
			reason = "skipped: " + p.Reason
		}
		if byReason[reason] == nil {
			reasons = append(reasons, reason)
		}
		byReason[reason] = append(byReason[reason], p)
	}
	slices.SortStableFunc(reasons, func(a, b string) int { // what is skipped comes first
		return cmp.Or(cmp.Compare(b[:1], a[:1]), cmp.Compare(len(byReason[b]), len(byReason[a])))
	})
	for _, reason := range reasons {
		problems := byReason[reason]
		times := "once"
		if len(problems) > 1 {
			times = fmt.Sprintf("%d times", len(problems))
		}
		fmt.Fprintf(&b, "%s, %s\n", reason, times)
		for _, p := range problems[:min(len(problems), shown)] {
			b.WriteString("  " + p.Position)
			if p.Detail != "" {
				b.WriteString(": " + p.Detail)
			}
			b.WriteString("\n")
		}
		if more := len(problems) - shown; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}
