package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// Metrics are the measures of one query, or the means over several queries. Each is from 0 to 1.
type Metrics struct {
	Recall1   float64 `json:"recall_at_1"`
	Recall5   float64 `json:"recall_at_5"`
	Recall10  float64 `json:"recall_at_10"`
	Recall50  float64 `json:"recall_at_50"`
	NDCG10    float64 `json:"ndcg_at_10"`
	MRR10     float64 `json:"mrr_at_10"`
	Success5  float64 `json:"success_at_5"`
	Success10 float64 `json:"success_at_10"`
}

type measure struct {
	name  string
	field func(*Metrics) *float64
	of    func(ranking []string, grades map[string]int, k int) float64
	k     int
}

var measures = []measure{
	{"recall@1", func(m *Metrics) *float64 { return &m.Recall1 }, Recall, 1},
	{"recall@5", func(m *Metrics) *float64 { return &m.Recall5 }, Recall, 5},
	{"recall@10", func(m *Metrics) *float64 { return &m.Recall10 }, Recall, 10},
	{"recall@50", func(m *Metrics) *float64 { return &m.Recall50 }, Recall, 50},
	{"nDCG@10", func(m *Metrics) *float64 { return &m.NDCG10 }, NDCG, 10},
	{"MRR@10", func(m *Metrics) *float64 { return &m.MRR10 }, ReciprocalRank, 10},
	{"success@5", func(m *Metrics) *float64 { return &m.Success5 }, Success, 5},
	{"success@10", func(m *Metrics) *float64 { return &m.Success10 }, Success, 10},
}

// MetricNames returns the names of the measures, such as recall@10.
func MetricNames() []string {
	return slice.Map(measures, func(m measure) string { return m.name })
}

// Value returns a measure by its name, or 0 for an unknown name.
func (m Metrics) Value(name string) float64 {
	for _, measure := range measures {
		if measure.name == name {
			return *measure.field(&m)
		}
	}
	return 0
}

// Values returns the measures in the order of MetricNames, for a table.
func (m Metrics) Values() []string {
	return slice.Map(measures, func(one measure) string { return fmt.Sprintf("%.3f", *one.field(&m)) })
}

// Measure compares a ranking, best first and without repetitions, with the grades of the judged documents.
func Measure(ranking []string, grades map[string]int) Metrics {
	var m Metrics
	for _, measure := range measures {
		*measure.field(&m) = measure.of(ranking, grades, measure.k)
	}
	return m
}

// Mean returns the arithmetic means over queries. They are 0 for no queries.
func Mean(queries []Metrics) Metrics {
	var mean Metrics
	for _, measure := range measures {
		sum := measure.field(&mean)
		for i := range queries {
			*sum += *measure.field(&queries[i])
		}
		*sum /= float64(max(len(queries), 1))
	}
	return mean
}

// Recall returns the share of the relevant documents that are among the first k. Documents with a grade above 0 are relevant.
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

// Success returns 1 if any relevant document is among the first k, else 0.
func Success(ranking []string, grades map[string]int, k int) float64 {
	if ReciprocalRank(ranking, grades, k) > 0 {
		return 1
	}
	return 0
}

// ReciprocalRank returns 1 / rank of the first relevant document, or 0 if none is among the first k.
func ReciprocalRank(ranking []string, grades map[string]int, k int) float64 {
	for i, id := range ranking[:min(k, len(ranking))] {
		if grades[id] > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}

// NDCG returns the normalised discounted cumulative gain of the first k documents. Gains are linear, grade / log2(rank + 1), as
// in trec_eval's ndcg_cut.
func NDCG(ranking []string, grades map[string]int, k int) float64 {
	ideal := slices.SortedFunc(maps.Values(grades), func(a, b int) int { return cmp.Compare(b, a) })
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

// NewPercentiles uses the nearest-rank method: each percentile is one of the durations. Without durations they are 0.
func NewPercentiles(durations []time.Duration) Percentiles {
	if len(durations) == 0 {
		return Percentiles{}
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := func(percent int) float64 {
		rank := (percent*len(sorted) + 99) / 100 // ceil(percent * n / 100)
		return float64(sorted[rank-1].Microseconds()) / 1000
	}
	return Percentiles{P50: at(50), P95: at(95), P99: at(99)}
}
