package fusion

import (
	"cmp"
	"slices"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// Quota reserves places for a leg: at least N of the results are its hits, if it has so many from Options.Least on. Other legs
// fill the places that remain.
type Quota struct {
	Leg string
	N   int
}

func (m *merge) meetQuotas() {
	ranks := slice.Map(m.options.Quotas, func(q Quota) []int32 { return m.ranksBy(q.Leg) })
	for i, quota := range m.options.Quotas {
		m.fill(quota.N, ranks[i], ranks)
	}
}

// fill gives n places to the documents that have one of the ranks, if there are so many. It removes the worst documents of the top that no
// leg with a quota found: they have none of all ranks. The leg's best remaining hits take their places.
func (m *merge) fill(n int, ranks []int32, all [][]int32) {
	missing := min(n, m.options.Limit)
	for _, d := range m.top {
		if ranks[d] > 0 {
			missing--
		}
	}
	if missing <= 0 {
		return
	}
	type candidate struct{ document, rank int32 }
	var candidates []candidate
	for d, rank := range ranks {
		if rank > 0 && !(m.documents[d].score < m.least) && !slices.Contains(m.top, int32(d)) {
			candidates = append(candidates, candidate{int32(d), rank})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), m.compare(a.document, b.document))
	})
	for _, c := range candidates[:min(missing, len(candidates))] {
		i := len(m.top) - 1
		for i >= 0 && slices.ContainsFunc(all, func(by []int32) bool { return by[m.top[i]] > 0 }) {
			i--
		}
		if i < 0 {
			break
		}
		m.top = append(slices.Delete(m.top, i, i+1), c.document)
	}
	slices.SortFunc(m.top, m.compare)
}

// ranksBy returns the rank that a leg gives each document, 0 if it lacks the document.
func (m *merge) ranksBy(leg string) []int32 {
	ranks := make([]int32, len(m.documents))
	for l, own := range m.each() {
		if m.lists[l].Leg != leg {
			continue
		}
		for h, d := range own {
			ranks[d] = int32(h + 1)
		}
	}
	return ranks
}
