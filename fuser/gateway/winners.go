package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/shingles"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// maxSpare is how far below the best a hit is looked for that says something else.
	maxSpare = 1000
	// maxFetch is how many contents are fetched at once.
	maxFetch = 1000
)

// winner is a memory on its way from the fused order into the answer.
type winner struct {
	fusion.Fused
	rank       int                // in the fused order, from 1
	memory     *triskelev1.Memory // nil if it could not be fetched, or nobody reads it
	matches    *triskelev1.Matches
	duplicates []*triskelev1.Duplicate // what it stands for
	reranked   *float64                // its score by the reranker, nil if it has none
}

// winners takes the best of the fused order: as many as are returned, or reranked, without those that were forgotten since
// they were found or say what a better one says. The report is nil if no contents were fetched; lost are the sentences about
// those that could not be.
func (g *Gateway) winners(ctx context.Context, r *recall, result fusion.Result) (out []winner, report *triskelev1.ContentsReport, lost []string) {
	pool := slices.Concat(result.Hits, result.Spare)
	settings := r.settings[0]
	want, words := r.fusion.Limit, ""
	if settings.reranks(r.req) {
		want = max(want, settings.rerank.top)
	}
	if r.req.GetExplain() && !r.req.GetIdsOnly() {
		words = r.req.GetQuery()
	}
	fetches := !r.req.GetIdsOnly() || settings.alike > 0 || settings.reranks(r.req)
	several := want
	if settings.alike > 0 {
		several *= 2
	}
	kept := collapse{alike: settings.alike}
	failed, rank := map[string]string{}, 0
	for len(pool) > 0 && len(out) < want {
		part := pool[:min(several, maxFetch, len(pool))]
		pool = pool[len(part):]
		var contents map[string]fetched
		if fetches {
			if report == nil {
				report = &triskelev1.ContentsReport{State: triskelev1.LegState_LEG_STATE_OK}
			}
			contents = g.contents(ctx, r, part, words, report)
		}
		for _, f := range part {
			of, asked := contents[f.Namespace]
			if of.reason != "" {
				failed[f.Namespace] = of.reason
			}
			w := winner{Fused: f, rank: rank + 1, memory: of.memories[f.ID], matches: of.matches[f.ID]}
			if asked && of.reason == "" && w.memory == nil {
				continue // forgotten since the leg found it
			}
			rank++
			if len(out) < want && !kept.isDuplicate(out, w) {
				out = append(out, w)
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(failed)) {
		lost = append(lost, fmt.Sprintf("the contents of hits in %s could not be fetched (%s), so only their ids are given", namespace, failed[namespace]))
	}
	return out, report, lost
}

// collapse finds winners that say what an earlier one says.
type collapse struct {
	alike    float64           // 0 finds none
	sketches []shingles.Sketch // of the winners so far
}

// isDuplicate says whether w resembles one of the winners, all of which it was asked about, and notes it there.
func (c *collapse) isDuplicate(winners []winner, w winner) bool {
	if c.alike == 0 {
		return false
	}
	sketch := shingles.Of(text(w.memory))
	for i, other := range c.sketches {
		if alike := sketch.To(other); alike >= c.alike {
			winners[i].duplicates = append(winners[i].duplicates, &triskelev1.Duplicate{
				Id: w.ID, Namespace: w.Namespace, FusedRank: int32(w.rank), Resemblance: alike,
			})
			return true
		}
	}
	c.sketches = append(c.sketches, sketch)
	return false
}

// text is what a memory says, as its vector is made of.
func text(m *triskelev1.Memory) string {
	if m.GetTitle() == "" {
		return m.GetContent()
	}
	return m.GetTitle() + "\n" + m.GetContent()
}
