package fusion

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// rounding covers that a sum of a few numbers around 1 depends on their order.
const rounding = 1e-12

// Settled says whether lists that are still outstanding, whose hits are not looked at, can no longer change which
// memories Fuse returns. They may still change the order of these and raise their scores.
//
// It holds when the last memory that is returned leads the next one, and one that nobody has found yet, by more than the
// outstanding lists can give: weight / (k + 1) each with RRF, else the weight. Quotas, an order by time, entity boosts, a bonus
// that one list gives to what all have, and scores that are completed from one another leave no such bound.
func Settled(lists, outstanding []List, options Options) bool {
	if len(options.Quotas) > 0 || options.ExactBonus > 0 || options.Boost.Weight > 0 || options.Sort == triskelev1.SortBy_SORT_BY_RECENCY {
		return false
	}
	most := map[string]float64{} // by namespace
	greatest := rounding
	for _, list := range outstanding {
		weight := list.Weight
		switch options.Method {
		case triskelev1.FusionMethod_FUSION_METHOD_CONVEX:
			if options.Alpha != nil {
				weight = max(weight, 1) // its kind, which decides, is not known yet
			}
		case triskelev1.FusionMethod_FUSION_METHOD_DBSF:
		default:
			weight /= options.K + 1
		}
		most[list.Namespace] += weight
		greatest = max(greatest, most[list.Namespace]+rounding)
	}
	limit := options.Limit
	options.Limit, options.Spare = options.Limit+1, 0
	hits := Fuse(lists, options).Hits
	if len(hits) < limit {
		return false
	}
	next := 0.
	if len(hits) > limit {
		next = hits[limit].Score
	}
	return hits[limit-1].Score > next+greatest
}
