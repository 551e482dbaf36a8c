package eval

import (
	"math"
	"slices"
	"time"
)

// Metrics are the means of several queries' measures, each from 0 to 1.
type Metrics struct {
	Recall5   float64 `json:"recall_at_5"`
	Recall10  float64 `json:"recall_at_10"`
	NDCG10    float64 `json:"ndcg_at_10"`
	MRR10     float64 `json:"mrr_at_10"`
	Success5  float64 `json:"success_at_5"`
	Success10 float64 `json:"success_at_10"`
}

// Measure measures one ranking, best first, no document twice, against the grades of the judged documents.
func Measure(ranking []string, grades map[string]int) Metrics {
	return Metrics{
		Recall5: Recall(ranking, grades, 5), Recall10: Recall(ranking, grades, 10),
		NDCG10: NDCG(ranking, grades, 10), MRR10: ReciprocalRank(ranking, grades, 10),
		Success5: Success(ranking, grades, 5), Success10: Success(ranking, grades, 10),
	}
}

// Mean weighs every query alike. It is zero for no queries.
func Mean(queries []Metrics) Metrics {
	var sum Metrics
	for _, m := range queries {
		sum.Recall5 += m.Recall5
		sum.Recall10 += m.Recall10
		sum.NDCG10 += m.NDCG10
		sum.MRR10 += m.MRR10
		sum.Success5 += m.Success5
		sum.Success10 += m.Success10
	}
	n := float64(max(len(queries), 1))
	return Metrics{
		Recall5: sum.Recall5 / n, Recall10: sum.Recall10 / n, NDCG10: sum.NDCG10 / n,
		MRR10: sum.MRR10 / n, Success5: sum.Success5 / n, Success10: sum.Success10 / n,
	}
}

// Recall is the share of the relevant documents, those with a grade above 0, among the first k.
func Recall(ranking []string, grades map[string]int, k int) float64 {
	relevant, found := 0, 0
	for _, grade := range grades {
		if grade > 0 {
			relevant++
		}
	}
	if relevant == 0 {
		return 0
	}
	for _, id := range ranking[:min(k, len(ranking))] {
		if grades[id] > 0 {
			found++
		}
	}
	return float64(found) / float64(relevant)
}

// Success is 1 if any relevant document is among the first k, else 0.
func Success(ranking []string, grades map[string]int, k int) float64 {
	if ReciprocalRank(ranking, grades, k) > 0 {
		return 1
	}
	return 0
}

// ReciprocalRank is 1 over the rank of the first relevant document, 0 if none is among the first k.
func ReciprocalRank(ranking []string, grades map[string]int, k int) float64 {
	for i, id := range ranking[:min(k, len(ranking))] {
		if grades[id] > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}

// NDCG is the normalised discounted cumulative gain with linear gains, grade / log2(rank + 1), as trec_eval's ndcg_cut.
func NDCG(ranking []string, grades map[string]int, k int) float64 {
	ideal := make([]int, 0, len(grades))
	for _, grade := range grades {
		ideal = append(ideal, grade)
	}
	slices.SortFunc(ideal, func(a, b int) int { return b - a })
	best := 0.0
	for i, grade := range ideal[:min(k, len(ideal))] {
		best += gain(grade, i)
	}
	if best == 0 {
		return 0
	}
	got := 0.0
	for i, id := range ranking[:min(k, len(ranking))] {
		got += gain(grades[id], i)
	}
	return got / best
}

func gain(grade, position int) float64 {
	return float64(max(grade, 0)) / math.Log2(float64(position+2))
}

// Percentiles of a set of durations, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

// NewPercentiles uses the nearest rank: each percentile is one of the durations. They are zero for none.
func NewPercentiles(durations []time.Duration) Percentiles {
	if len(durations) == 0 {
		return Percentiles{}
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := func(percent int) float64 {
		rank := (percent*len(sorted) + 99) / 100 // ceil, without the rounding of floats
		return float64(sorted[rank-1].Microseconds()) / 1000
	}
	return Percentiles{P50: at(50), P95: at(95), P99: at(99)}
}
