package fusion

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// rounding covers that a sum of a few numbers around 1 depends on their order.
const rounding = 1e-12

// Settled says whether lists that are still outstanding, whose hits are not looked at, can no longer change which
// memories Fuse returns. They may still change the order of these and raise their scores.
//
// It holds when the last memory that is returned leads the next one, and one that nobody has found yet, by more than the
// outstanding lists can give: weight / (k + 1) each with RRF, else the weight, and what trust makes of it or, once they have
// answered, of what is there. Quotas, an order by time, entity boosts, a bonus that one list gives to what all have, and scores
// that are completed from one another leave no such bound.
func Settled(lists, outstanding []List, options Options) bool {
	if len(options.Quotas) > 0 || options.ExactBonus > 0 || options.Boost.Weight > 0 || options.Sort == triskelev1.SortBy_SORT_BY_RECENCY {
		return false
	}
	all := map[string]float64{} // what all lists together can give, by namespace
	for i := range lists {
		if len(lists[i].Hits) > 0 {
			all[lists[i].Namespace] += options.most(&lists[i])
		}
	}
	for i := range outstanding {
		all[outstanding[i].Namespace] += options.unseen(&outstanding[i])
	}
	most := map[string]float64{} // what they can still give
	for i := range outstanding {
		least := options.unseen(&outstanding[i])
		most[outstanding[i].Namespace] += max(least, min(least*(1+outstanding[i].Trust), all[outstanding[i].Namespace]-least))
	}
	for i := range lists {
		if waiting := most[lists[i].Namespace] > 0; waiting && len(lists[i].Hits) > 0 {
			own := options.most(&lists[i])
			most[lists[i].Namespace] += min(own*lists[i].Trust, all[lists[i].Namespace]-own)
		}
	}
	greatest := rounding
	for _, sum := range most {
		greatest = max(greatest, sum+rounding)
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

// unseen is the greatest contribution of a list whose kind is not known yet, but for trust.
func (o Options) unseen(list *List) float64 {
	if o.Method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX && o.Alpha != nil {
		return max(list.Weight, 1)
	}
	return o.most(list)
}
