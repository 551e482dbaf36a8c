package fusion

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// TrustApplies says whether the Trust of one of the lists has an effect. Trust protects a list from being outvoted by two
// others that agree by chance. One other list alone cannot outvote it.
func TrustApplies(lists []List, list int) bool {
	others := 0
	for i := range lists {
		if lists[i].rivals(&lists[list]) {
			others++
		}
	}
	return lists[list].Trust > 0 && others >= 2
}

// rivals says whether a list contributes to the same namespace as another list.
func (l *List) rivals(other *List) bool {
	return l != other && l.Namespace == other.Namespace && l.Weight > 0 && len(l.Hits) > 0
}

// bound returns the most that the other lists of the namespace can give one memory together. Trust raises no contribution
// above it, so it never outvotes a memory that is first in all other lists.
func (m *merge) bound(list *List) float64 {
	sum := 0.
	for _, l := range m.order {
		if m.lists[l].rivals(list) {
			sum += m.options.most(&m.lists[l])
		}
	}
	return sum
}

// raise applies trust to a contribution: it multiplies the value by 1 + trust, up to the bound, and the reported weight by
// the same factor.
func (c *link) raise(trust, bound float64) {
	raised := max(c.value, min(c.value*(1+trust), bound))
	if raised > c.value {
		c.weight *= raised / c.value
		c.value = raised
	}
}

// most is the greatest contribution of a list, without trust.
func (o Options) most(list *List) float64 {
	switch o.Method {
	case triskelev1.FusionMethod_FUSION_METHOD_CONVEX:
		return convexWeight(list, o.Alpha)
	case triskelev1.FusionMethod_FUSION_METHOD_DBSF:
		return list.Weight
	}
	return list.Weight / (o.K + 1)
}
