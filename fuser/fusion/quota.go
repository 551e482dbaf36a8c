package fusion

import (
	"cmp"
	"slices"
)

// Quota reserves places for a leg: at least N of the results are its hits, if it has so many. Other legs fill the places
// that remain.
type Quota struct {
	Leg string
	N   int
}

// fill meets a quota. It removes the worst documents of the top that no leg with a quota found. The leg's best remaining
// hits take their places.
func (m *merge) fill(quota Quota) {
	missing := min(quota.N, m.options.Limit)
	for _, d := range m.top {
		if m.rankBy(d, quota.Leg) > 0 {
			missing--
		}
	}
	if missing <= 0 {
		return
	}
	type candidate struct{ document, rank int32 }
	var candidates []candidate
	for d := range int32(len(m.documents)) {
		if rank := m.rankBy(d, quota.Leg); rank > 0 && !slices.Contains(m.top, d) {
			candidates = append(candidates, candidate{d, rank})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), m.compare(a.document, b.document))
	})
	for _, c := range candidates[:min(missing, len(candidates))] {
		i := m.lastWithoutQuota()
		if i < 0 {
			break
		}
		m.top = append(slices.Delete(m.top, i, i+1), c.document)
	}
	slices.SortFunc(m.top, m.compare)
}

// lastWithoutQuota returns the position in top of the worst document that no leg with a quota found, -1 if there is none.
func (m *merge) lastWithoutQuota() int {
	for i := len(m.top) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(m.options.Quotas, func(q Quota) bool { return m.rankBy(m.top[i], q.Leg) > 0 }) {
			return i
		}
	}
	return -1
}

// rankBy returns the rank that a leg gives a document, 0 if it lacks the document.
func (m *merge) rankBy(d int32, leg string) int32 {
	for l, own := range m.each() {
		if m.lists[l].Leg != leg {
			continue
		}
		if h := slices.Index(own, d); h >= 0 {
			return int32(h + 1)
		}
	}
	return 0
}
