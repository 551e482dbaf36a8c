package demo

import (
	"context"
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// recallAt is the k of recall@k: how many hits an agent would read.
	recallAt = 5
	// floor is the least recall with all legs, over all questions.
	floor = 0.55
)

// scores are the means over the questions of each stratum, by its name. "all" is the mean over all questions.
type scores map[string]score

type score struct {
	questions   int
	recall, mrr float64
}

const all = "all"

func (s scores) add(stratum string, recall, mrr float64) {
	for _, name := range []string{stratum, all} {
		sum := s[name]
		n := float64(sum.questions)
		s[name] = score{sum.questions + 1, (sum.recall*n + recall) / (n + 1), (sum.mrr*n + mrr) / (n + 1)}
	}
}

// measure asks all questions three times: with all legs, with the lexical leg alone and with the dense leg alone.
func (d *demo) measure(ctx context.Context) error {
	incomplete := 0
	for i, legs := range []map[string]*triskelev1.LegOptions{nil, without("dense", "graph"), without("lexical", "graph")} {
		d.scores[i] = scores{}
		for _, q := range d.queries {
			req := request(q.Text)
			req.IdsOnly, req.Explain, req.Legs = true, false, legs
			resp, err := d.Recalls.Recall(ctx, req)
			if err != nil {
				return fmt.Errorf("recall %s: %w", q.ID, err)
			}
			if resp.GetDegraded() {
				incomplete++
			}
			found, mrr := 0, 0.0
			for _, key := range q.Relevant {
				rank := find(resp, key).GetRank()
				if rank > 0 {
					mrr = max(mrr, 1/float64(rank))
				}
				if 0 < rank && rank <= recallAt {
					found++
				}
			}
			d.scores[i].add(q.Stratum, float64(found)/float64(len(q.Relevant)), mrr)
		}
	}
	d.expect(incomplete == 0, "no answer is incomplete (got %d)", incomplete)
	return nil
}

// strata lists the strata in the order of the questions, then all.
func (d *demo) strata() []string {
	var names []string
	for _, q := range d.queries {
		if len(names) == 0 || names[len(names)-1] != q.Stratum {
			names = append(names, q.Stratum)
		}
	}
	return append(names, all)
}

// table prints the scores of measure.
func (d *demo) table(context.Context) error {
	d.heading(fmt.Sprintf("All %d questions", len(d.queries)))
	d.say("Recall@%d is the share of a question's relevant memories among the first %d hits. MRR is the mean of 1 / rank of the first relevant hit, "+
		"or 0 beyond rank %d. The paraphrases have hardly a word of their answers. The lexical leg finds none of them, and the dense leg alone, with "+
		"the small built-in model, finds some. The flag --embedder names a larger model.", recallAt, recallAt, depth)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s %9s  %16s  %16s  %16s\n", "", "", "all legs", "lexical alone", "dense alone")
	fmt.Fprintf(&b, "%-12s %9s  %8s %7s  %8s %7s  %8s %7s\n", "stratum", "questions", "recall@5", "MRR", "recall@5", "MRR", "recall@5", "MRR")
	for _, name := range d.strata() {
		every, lexical, dense := d.scores[0][name], d.scores[1][name], d.scores[2][name]
		row := fmt.Sprintf("%-12s %9d  %8.3f %7.3f  %8.3f %7.3f  %8.3f %7.3f", name, every.questions,
			every.recall, every.mrr, lexical.recall, lexical.mrr, dense.recall, dense.mrr)
		if name == all {
			row = d.style.Bold(row)
		}
		b.WriteString(row + "\n")
	}
	d.print(b.String() + "\n")
	reached := d.scores[0][all].recall
	d.expectOfModel(reached >= floor, "recall@%d over all questions is at least %.2f (got %.3f)", recallAt, floor, reached)
	return nil
}
