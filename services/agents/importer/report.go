package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// shown is how many positions the text of a report names for each reason.
const shown = 3

// Report says what became of everything a source holds.
type Report struct {
	DryRun    bool  `json:"dry_run"`
	Resumed   int64 `json:"resumed"` // positions that an earlier run had done
	Stored    int64 `json:"stored"`
	Unchanged int64 `json:"unchanged"`
	Updated   int64 `json:"updated"`
	Forgotten int64 `json:"forgotten"` // memories of positions that an update left without them
	Skipped   int64 `json:"skipped"`
	// Problems are all positions that were skipped or imported with something missing.
	Problems []Problem `json:"problems"`
	// Namespaces are those that were written to, and when they came to be if the position is kept.
	Namespaces map[string]time.Time `json:"-"`
}

func newReport() *Report { return &Report{Problems: []Problem{}, Namespaces: map[string]time.Time{}} }

// add takes a batch into the report.
func (r *Report) add(b *batch) {
	r.Stored += b.Stored
	r.Unchanged += b.Unchanged
	r.Updated += b.Updated
	r.Forgotten += b.Forgotten
	r.Skipped += b.Skipped
	r.Problems = append(r.Problems, b.Problems...)
}

// Done is how many positions the report is about.
func (r *Report) Done() int64 { return r.Stored + r.Unchanged + r.Updated + r.Skipped }

// String counts, and names the first positions for each reason.
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
	type group struct {
		skipped bool
		reason  string
	}
	byGroup := map[group][]Problem{}
	var groups []group
	for _, p := range r.Problems {
		g := group{p.Skipped, p.Reason}
		if byGroup[g] == nil {
			groups = append(groups, g)
		}
		byGroup[g] = append(byGroup[g], p)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		if a.skipped != b.skipped {
			return cmp.Compare(fmt.Sprint(b.skipped), fmt.Sprint(a.skipped))
		}
		return cmp.Compare(len(byGroup[b]), len(byGroup[a]))
	})
	for _, g := range groups {
		problems := byGroup[g]
		what := "imported, but "
		if g.skipped {
			what = "skipped: "
		}
		times := "once"
		if len(problems) > 1 {
			times = fmt.Sprintf("%d times", len(problems))
		}
		fmt.Fprintf(&b, "%s%s, %s\n", what, g.reason, times)
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

// WriteJSON writes the report with every position that has a problem.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
