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

// Report counts the outcomes of an import. All but Forgotten are positions.
type Report struct {
	DryRun    bool  `json:"dry_run"`
	Resumed   int64 `json:"resumed"` // done by an earlier run
	Stored    int64 `json:"stored"`
	Unchanged int64 `json:"unchanged"`
	Updated   int64 `json:"updated"`
	Forgotten int64 `json:"forgotten"` // memories that an updated position no longer has
	Skipped   int64 `json:"skipped"`
	// Problems are the positions that were not imported, or not completely.
	Problems []Problem `json:"problems"`
	// Namespaces are the namespaces with memories of the import. With a journal, they have their times of creation.
	Namespaces map[string]time.Time `json:"-"`
}

func newReport() *Report { return &Report{Problems: []Problem{}, Namespaces: map[string]time.Time{}} }

// add adds the outcome of a batch.
func (r *Report) add(b *batch) {
	r.Stored += b.Stored
	r.Unchanged += b.Unchanged
	r.Updated += b.Updated
	r.Forgotten += b.Forgotten
	r.Skipped += b.Skipped
	r.Problems = append(r.Problems, b.Problems...)
}

// Done returns the number of positions in the report.
func (r *Report) Done() int64 { return r.Stored + r.Unchanged + r.Updated + r.Skipped }

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
	r.writeProblems(&b)
	return b.String()
}

func (r *Report) writeProblems(b *strings.Builder) {
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
		fmt.Fprintf(b, "%s%s, %s\n", what, g.reason, times)
		for _, p := range problems[:min(len(problems), shown)] {
			b.WriteString("  " + p.Position)
			if p.Detail != "" {
				b.WriteString(": " + p.Detail)
			}
			b.WriteString("\n")
		}
		if more := len(problems) - shown; more > 0 {
			fmt.Fprintf(b, "  and %d more\n", more)
		}
	}
}

// WriteJSON writes the report with all problems.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
