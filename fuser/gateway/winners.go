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
	// maxReserve is how many memories beyond the limit may take the places of duplicates, or of newer ones that min_score leaves out.
	maxReserve = 1000
	maxFetch   = 1000 // contents that are asked for at once
)

// winner is a memory on its way from the fused order into the response.
type winner struct {
	fusion.Fused
	rank       int                // in the fused order, from 1
	memory     *triskelev1.Memory // nil if it was not fetched
	matches    *triskelev1.Matches
	duplicates []*triskelev1.Duplicate // memories left out because they are similar to it
	reranked   *float64                // the reranker's score; nil if it has none
	// matchedTime is the time in the query that the memory's date fits.
	matchedTime string
}

// winners returns the best of the fused order: as many as are returned or reranked. It leaves out memories that were forgotten
// since the search, and duplicates of better ones. The report is nil if there was nothing to fetch. lost has a sentence for each
// namespace whose contents could not be fetched.
func (g *Gateway) winners(ctx context.Context, r *recall, result fusion.Result) (out []winner, report *triskelev1.ContentsReport, lost []string) {
	pool := slices.Concat(result.Hits, result.Reserve)
	settings := r.settings[0]
	want, query := r.fusion.Limit, ""
	if len(r.fusion.Quotas) == 0 { // with them, what is in the new order must be returned
		if settings.reranks(r.req) {
			want = max(want, settings.rerank.top)
		}
		if r.times.any() {
			want = max(want, maxTimed)
		}
	}
	if r.req.GetExplain() && !r.req.GetIdsOnly() {
		query = r.req.GetQuery()
	}
	batch := want
	if settings.similarity > 0 {
		batch *= 2
	}
	out = make([]winner, 0, min(want, len(pool)))
	kept := deduplicator{similarity: settings.similarity, superseded: r.req.GetFilter().GetIncludeSuperseded()}
	failed, rank := map[string]string{}, 0
	for len(pool) > 0 && len(out) < want {
		part := pool[:min(batch, maxFetch, len(pool))]
		pool = pool[len(part):]
		if report == nil {
			report = &triskelev1.ContentsReport{State: triskelev1.LegState_LEG_STATE_OK}
		}
		contents := g.contents(ctx, r, part, query, report) // also for ids only: legs may search what has been forgotten since
		for _, f := range part {
			of := contents[f.Namespace]
			if of.reason != "" {
				failed[f.Namespace] = of.reason
			}
			w := winner{Fused: f, rank: rank + 1, memory: of.memories[f.ID], matches: of.matches[f.ID]}
			if of.reason == "" && w.memory == nil {
				continue // forgotten since the search
			}
			rank++
			if len(out) < want {
				out = kept.add(ctx, out, w)
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(failed)) {
		lost = append(lost, fmt.Sprintf("the contents of hits in %s could not be fetched (%s), so only their ids are given", namespace, failed[namespace]))
	}
	return out, report, lost
}

// deduplicator finds winners that are similar to an earlier one.
type deduplicator struct {
	similarity float64           // from which on a winner is a duplicate; 0 finds none
	superseded bool              // one that was superseded gives way to a current one
	sketches   []shingles.Sketch // of the winners so far
}

// add adds w to the winners, or to the duplicates of one that it is similar to. Once the recall's time is over, nothing is compared any more:
// a thousand long texts take seconds.
func (d *deduplicator) add(ctx context.Context, winners []winner, w winner) []winner {
	if d.similarity == 0 || ctx.Err() != nil {
		return append(winners, w)
	}
	sketch := shingles.Of(text(w.memory))
	for i, other := range d.sketches {
		similarity := sketch.Similarity(other)
		if similarity < d.similarity {
			continue
		}
		duplicate := func(of winner) *triskelev1.Duplicate {
			return &triskelev1.Duplicate{Id: of.ID, Namespace: of.Namespace, FusedRank: int32(of.rank), Resemblance: similarity}
		}
		old := winners[i]
		if !d.superseded || old.memory.GetSupersededBy() == "" || w.memory.GetSupersededBy() != "" {
			winners[i].duplicates = append(old.duplicates, duplicate(w))
			return winners
		}
		w.duplicates = append(old.duplicates, duplicate(old))
		winners, d.sketches = slices.Delete(winners, i, i+1), slices.Delete(d.sketches, i, i+1)
		break
	}
	d.sketches = append(d.sketches, sketch)
	return append(winners, w)
}

// text is the text of a memory that its vector is made of.
func text(m *triskelev1.Memory) string {
	if m.GetTitle() == "" {
		return m.GetContent()
	}
	return m.GetTitle() + "\n" + m.GetContent()
}
