package fusion

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// Trusted says whether the Trust of one of the lists counts. Trust lets a list stand against others that agree by chance, on
// what looks like the query: a single other has nobody to agree with, and its voice is no louder than the list's own.
func Trusted(lists []List, list int) bool {
	others := 0
	for i := range lists {
		if lists[i].besides(&lists[list]) {
			others++
		}
	}
	return lists[list].Trust > 0 && others >= 2
}

// besides says whether a list has a say beside another in the same namespace.
func (l *List) besides(other *List) bool {
	return l != other && l.Namespace == other.Namespace && l.Weight > 0 && len(l.Hits) > 0
}

// bound is what the other lists of the namespace can give one memory together, and so the most that trust makes of a
// contribution: what they agree on above all is never outvoted.
func (m *merge) bound(list *List) float64 {
	sum := 0.
	for _, l := range m.order {
		if m.lists[l].besides(list) {
			sum += m.options.most(&m.lists[l])
		}
	}
	return sum
}

// raise applies trust to a list's contributions: each is multiplied by 1 + Trust, as far as the bound allows, and so is the
// weight that is told of it.
func (c *link) raise(trust, bound float64) {
	raised := max(c.value, min(c.value*(1+trust), bound))
	if raised > c.value {
		c.weight *= raised / c.value
		c.value = raised
	}
}

// most is the greatest contribution of a list, but for trust.
func (o Options) most(list *List) float64 {
	switch o.Method {
	case triskelev1.FusionMethod_FUSION_METHOD_CONVEX:
		return convexWeight(list, o.Alpha)
	case triskelev1.FusionMethod_FUSION_METHOD_DBSF:
		return list.Weight
	}
	return list.Weight / (o.K + 1)
}
