package evidence

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

const (
	// explained is how many queries of either kind are written out.
	explained = 10
	// explainedHits is how many hits of each.
	explainedHits = 5
)

// diffs writes, for each hypothesis and set, which queries gained and lost most by the candidate, with both answers side by
// side and what each leg contributed: DIFFS/HYPOTHESIS/SET.md. They hold texts of the sets, so they are for whoever runs the
// plan and not for the report.
func (s *Study) diffs(ctx context.Context, folder string) error {
	for _, h := range s.Plan.Hypotheses {
		base, candidate := s.cell(h.Baseline), s.best(h)
		if base.name == candidate.name {
			continue
		}
		for _, set := range s.sets {
			file := filepath.Join(folder, unsafe.ReplaceAllString(h.Name, "_"), set.Name+".md")
			if _, err := os.Stat(file); err == nil {
				continue // of the study that this one goes on with
			}
			text, err := s.diff(ctx, set, base, candidate)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", h.Name, set.Name, err)
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Study) diff(ctx context.Context, set *eval.Set, base, candidate cell) (string, error) {
	type change struct {
		query int
		gain  float64
	}
	var gained, lost []change
	before, after := s.runs[run{set.Name, base.name}], s.runs[run{set.Name, candidate.name}]
	for i := range set.Queries {
		switch gain := after[i].Value(s.Plan.Metric) - before[i].Value(s.Plan.Metric); {
		case gain > 0:
			gained = append(gained, change{i, gain})
		case gain < 0:
			lost = append(lost, change{i, gain})
		}
	}
	slices.SortStableFunc(gained, func(a, b change) int { return cmp.Compare(b.gain, a.gain) })
	slices.SortStableFunc(lost, func(a, b change) int { return cmp.Compare(a.gain, b.gain) })
	w := &writer{}
	w.line("# %s: %s after %s\n\n%s: %d queries gained, %d lost, %d are the same.", set.Name, candidate.name, base.name, s.Plan.Metric,
		len(gained), len(lost), len(set.Queries)-len(gained)-len(lost))
	if len(gained)+len(lost) == 0 {
		return w.String(), nil
	}
	legs, err := s.legs(ctx, set)
	if err != nil {
		return "", err
	}
	for _, part := range []struct {
		name    string
		changes []change
	}{{"Gained most", gained}, {"Lost most", lost}} {
		w.line("\n## %s", part.name)
		for _, c := range part.changes[:min(explained, len(part.changes))] {
			q := set.Queries[c.query]
			w.line("\n### %+.3f %s\n\n%s", c.gain, q.ID, cellText(q.Text))
			w.table("rank | " + cellText(base.name) + " | " + cellText(candidate.name))
			var sides [2][]string
			for i, side := range []cell{base, candidate} {
				if sides[i], err = s.explain(ctx, set, q, side, legs); err != nil {
					return "", err
				}
			}
			for rank := range max(len(sides[0]), len(sides[1])) {
				row := []string{fmt.Sprint(rank + 1), "", ""}
				for i, side := range sides {
					if rank < len(side) {
						row[i+1] = side[rank]
					}
				}
				w.line("| %s |", strings.Join(row, " | "))
			}
		}
	}
	return w.String(), nil
}

// explain writes the first hits of a query with their contributions; a star marks the relevant ones.
func (s *Study) explain(ctx context.Context, set *eval.Set, q eval.Query, c cell, legs []triskelev1.LegServiceClient) ([]string, error) {
	g, err := s.gateway(set, c, legs)
	if err != nil {
		return nil, err
	}
	hits := int32(explainedHits)
	resp, err := g.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{q.Namespace}, Query: q.Text, Limit: &hits, Explain: true, Budget: durationpb.New(budget),
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, hit := range resp.GetHits() {
		id := set.Documents[hit.GetId()]
		var parts []string
		for _, of := range hit.GetContributions() {
			parts = append(parts, fmt.Sprintf("%s #%d %.4f", of.GetLeg(), of.GetRank(), of.GetValue()))
		}
		mark := ""
		if q.Grades[id] > 0 {
			mark = " ★"
		}
		content := []rune(cellText(hit.GetMemory().GetContent()))
		out = append(out, fmt.Sprintf("%s%s (%s) %s", id, mark, strings.Join(parts, ", "), string(content[:min(100, len(content))])))
	}
	return out, nil
}
