package fusion

import triskelev1 "github.com/triskele/triskele/proto/triskele/v1"

// rounding bounds the error of a sum of a few numbers around 1, which depends on their order.
const rounding = 1e-12

// Settled says whether outstanding lists can no longer change which memories Fuse returns. It ignores their hits. They may
// still change the order of the memories returned and raise their scores.
//
// It is true if the last memory returned leads the next one, and any memory not found yet, by more than the outstanding
// lists can give. With RRF a list gives at most weight / (K + 1), otherwise its weight. Trust may raise the contributions of
// outstanding lists and, once these have answered, those of the lists that are there.
//
// There is no such bound with the calibrated fusion, with quotas, an order by time, entity boosts, an exact bonus or completed scores. Settled returns
// false for the first five. The caller must not ask with the last.
func Settled(lists, outstanding []List, options Options) bool {
	if options.Method == calibrated || len(options.Quotas) > 0 || options.ExactBonus > 0 || options.Boost.Weight > 0 || options.Sort == triskelev1.SortBy_SORT_BY_RECENCY {
		return false
	}
	all := map[string]float64{} // the most that all lists can give one memory, by namespace
	for i := range lists {
		if len(lists[i].Hits) > 0 {
			all[lists[i].Namespace] += options.most(&lists[i])
		}
	}
	for i := range outstanding {
		all[outstanding[i].Namespace] += options.unseen(&outstanding[i])
	}
	most := map[string]float64{} // the most that one memory can still gain, by namespace
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
	options.Limit, options.Reserve = options.Limit+1, 0
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

// unseen is the greatest contribution, without trust, of a list whose kind is not known yet.
func (o Options) unseen(list *List) float64 {
	if o.Method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX && o.Alpha != nil {
		return max(list.Weight, 1)
	}
	return o.most(list)
}
