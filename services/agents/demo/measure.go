package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

const (
	// floor is the least recall@5 with all legs, over all questions.
	floor = 0.55
	// all is the stratum of all questions.
	all = "all"
)

// scores are the measures of questions by stratum.
type scores map[string][]eval.Metrics

// measure asks all questions three times: with all legs, with the lexical leg alone and with the dense leg alone.
func (d *demo) measure(ctx context.Context) {
	incomplete := 0
	for i, legs := range []map[string]*triskelev1.LegOptions{nil, without("dense", "graph"), without("lexical", "graph")} {
		d.scores[i] = scores{}
		for _, q := range d.queries {
			req := request(q.Text)
			req.IdsOnly, req.Explain, req.Legs = true, false, legs
			resp := d.recall(ctx, req)
			if resp.GetDegraded() {
				incomplete++
			}
			grades := map[string]int{}
			for _, key := range q.Relevant {
				grades[ID(key)] = 1
			}
			m := eval.Measure(slice.Map(resp.GetHits(), (*triskelev1.Hit).GetId), grades)
			for _, name := range []string{q.Stratum, all} {
				d.scores[i][name] = append(d.scores[i][name], m)
			}
		}
	}
	d.expect(incomplete == 0, "no answer is incomplete (got %d)", incomplete)
}

func (d *demo) table(context.Context) {
	d.heading(fmt.Sprintf("All %d questions", len(d.queries)))
	d.say("Recall@5 is the share of a question's relevant memories among the first 5 hits. MRR is the mean of 1 / rank of the first relevant hit, "+
		"or 0 beyond rank %d. The paraphrases have hardly a word of their answers. The lexical leg finds none of them, and the dense leg alone, with "+
		"the small built-in model, finds some. The flag --embedder names a larger model.", depth)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s %9s  %16s  %16s  %16s\n", "", "", "all legs", "lexical alone", "dense alone")
	fmt.Fprintf(&b, "%-12s %9s  %8s %7s  %8s %7s  %8s %7s\n", "stratum", "questions", "recall@5", "MRR", "recall@5", "MRR", "recall@5", "MRR")
	strata := slices.Compact(slice.Map(d.queries, func(q Query) string { return q.Stratum })) // in the order of the questions
	for _, name := range append(strata, all) {
		row := fmt.Sprintf("%-12s %9d", name, len(d.scores[0][name]))
		for _, of := range d.scores {
			mean := eval.Mean(of[name])
			row += fmt.Sprintf("  %8.3f %7.3f", mean.Recall5, mean.MRR10)
		}
		if name == all {
			row = d.style.Bold(row)
		}
		b.WriteString(row + "\n")
	}
	d.print(b.String() + "\n")
	reached := eval.Mean(d.scores[0][all]).Recall5
	d.expectOfModel(reached >= floor, "recall@5 over all questions is at least %.2f (got %.3f)", floor, reached)
}
