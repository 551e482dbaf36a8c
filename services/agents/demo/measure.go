package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// recallAt is how much of a ranking an agent would read.
	recallAt = 5
	// floor is what recall with all legs reaches at least, over all questions.
	floor = 0.55
)

// scores are the means over the questions of one stratum, by its name; "all" is over all questions.
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

// measure asks all questions, with all legs, with the lexical one alone and with the dense one alone.
func (d *demo) measure(ctx context.Context) error {
	off, incomplete := false, 0
	for i, legs := range []map[string]*triskelev1.LegOptions{
		nil, {"dense": {Enabled: &off}, "graph": {Enabled: &off}}, {"lexical": {Enabled: &off}, "graph": {Enabled: &off}},
	} {
		d.scores[i] = scores{}
		for _, q := range d.queries {
			limit := int32(depth)
			resp, err := d.Recalls.Recall(ctx, &triskelev1.RecallRequest{
				Namespaces: []string{Namespace}, Query: q.Text, Limit: &limit, IdsOnly: true, Legs: legs, Budget: durationpb.New(patience),
			})
			if err != nil {
				return fmt.Errorf("recall %s: %w", q.ID, err)
			}
			if resp.GetDegraded() {
				incomplete++
			}
			ranking := make([]string, len(resp.GetHits()))
			for n, hit := range resp.GetHits() {
				ranking[n] = hit.GetId()
			}
			found, mrr := 0, 0.0
			for _, key := range q.Relevant {
				rank := slices.Index(ranking, ID(key)) + 1
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
	d.expect(incomplete == 0, "all legs answer all questions, and %d answers were incomplete", incomplete)
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

// table shows what measure found.
func (d *demo) table(context.Context) error {
	d.heading(fmt.Sprintf("All %d questions", len(d.queries)))
	d.say("Recall@%d is the share of the memories that answer a question found among the first %d; MRR is the mean of 1 / rank of the first of them, 0 beyond rank %d. "+
		"The paraphrases share hardly a word with their answers: the lexical leg finds none of them, and a model as small as the built-in one, "+
		"asked alone, some. A larger one is a flag away: --embedder.", recallAt, recallAt, depth)
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
	d.expectOfModel(reached >= floor, "recall@%d over all questions is at least %.2f, and it is %.3f", recallAt, floor, reached)
	return nil
}
