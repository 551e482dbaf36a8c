package eval_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/triskele/triskele/services/eval"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The expected values are worked out by hand from the definitions.
func TestMeasure(t *testing.T) {
	ten := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}
	for _, test := range []struct {
		name    string
		ranking []string
		grades  map[string]int
		want    eval.Metrics
	}{
		{
			name:    "the only relevant document comes first",
			ranking: ten, grades: map[string]int{"a": 1},
			want: eval.Metrics{Recall1: 1, Recall5: 1, Recall10: 1, Recall50: 1, NDCG10: 1, MRR10: 1, Success5: 1, Success10: 1},
		},
		{
			name:    "ranks 3, 6 and 11 of three relevant documents",
			ranking: ten, grades: map[string]int{"c": 1, "f": 1, "k": 1},
			want: eval.Metrics{
				Recall5: 1.0 / 3, Recall10: 2.0 / 3, Recall50: 1,
				// (1/log2 4 + 1/log2 7) / (1/log2 2 + 1/log2 3 + 1/log2 4)
				NDCG10: (0.5 + 0.35620718710802218) / (1 + 0.63092975357145742 + 0.5),
				MRR10:  1.0 / 3, Success5: 1, Success10: 1,
			},
		},
		{
			name:    "grades count in the gain only",
			ranking: []string{"low", "none", "high"}, grades: map[string]int{"high": 3, "low": 1, "none": 0, "bad": -2},
			want: eval.Metrics{
				Recall1: 0.5, Recall5: 1, Recall10: 1, Recall50: 1,
				// (1/log2 2 + 3/log2 4) / (3/log2 2 + 1/log2 3)
				NDCG10: (1 + 1.5) / (3 + 0.63092975357145742),
				MRR10:  1, Success5: 1, Success10: 1,
			},
		},
		{
			name:    "a document graded below 0 gains nothing",
			ranking: []string{"bad", "good"}, grades: map[string]int{"good": 1, "bad": -2},
			want: eval.Metrics{Recall5: 1, Recall10: 1, Recall50: 1, NDCG10: 0.63092975357145742, MRR10: 0.5, Success5: 1, Success10: 1},
		},
		{
			name:    "found between five and ten",
			ranking: ten, grades: map[string]int{"g": 2},
			want: eval.Metrics{Recall10: 1, Recall50: 1, NDCG10: 1.0 / 3, MRR10: 1.0 / 7, Success5: 0, Success10: 1}, // log2 8 = 3
		},
		{name: "nothing relevant is found", ranking: ten, grades: map[string]int{"x": 1, "a": 0}},
		{name: "nothing is found", ranking: nil, grades: map[string]int{"x": 1}},
		{name: "nothing is relevant", ranking: ten, grades: map[string]int{"a": 0}},
		{name: "nothing is judged", ranking: ten, grades: nil},
		{
			name:    "fewer hits than relevant documents",
			ranking: []string{"a"}, grades: map[string]int{"a": 1, "b": 1},
			want: eval.Metrics{Recall1: 0.5, Recall5: 0.5, Recall10: 0.5, Recall50: 0.5, NDCG10: 1 / (1 + 0.63092975357145742), MRR10: 1, Success5: 1, Success10: 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := eval.Measure(test.ranking, test.grades)
			for _, name := range eval.MetricNames() {
				if !near(got.Value(name), test.want.Value(name)) {
					t.Errorf("%s: %v, want %v", name, got.Value(name), test.want.Value(name))
				}
			}
		})
	}
}

// With more than ten relevant documents the ideal ranking has ten of them.
func TestNDCGOfManyRelevantDocuments(t *testing.T) {
	grades := map[string]int{}
	var ranking []string
	for i := range 20 {
		id := fmt.Sprint(i)
		grades[id] = 1
		ranking = append(ranking, id)
	}
	if got := eval.NDCG(ranking, grades, 10); !near(got, 1) {
		t.Errorf("nDCG@10 %v, want 1", got)
	}
	if got := eval.Recall(ranking, grades, 10); !near(got, 0.5) {
		t.Errorf("recall@10 %v, want 0.5", got)
	}
}

func TestMeasuresOfRandomRankings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		ranking := make([]string, random.IntN(30))
		for i, n := range random.Perm(40)[:len(ranking)] {
			ranking[i] = fmt.Sprint(n)
		}
		grades := map[string]int{}
		for range random.IntN(12) {
			grades[fmt.Sprint(random.IntN(40))] = random.IntN(5) - 1
		}
		for k := 1; k < 15; k++ {
			recall, ndcg, rr, success := eval.Recall(ranking, grades, k), eval.NDCG(ranking, grades, k), eval.ReciprocalRank(ranking, grades, k), eval.Success(ranking, grades, k)
			for _, v := range []float64{recall, ndcg, rr, success} {
				if !(v >= 0 && v <= 1+1e-9) {
					t.Fatalf("%v is not from 0 to 1: %v %v at %d", v, ranking, grades, k)
				}
			}
			if found := success == 1; found != (recall > 0) || found != (ndcg > 0) || found != (rr > 0) {
				t.Fatalf("measures disagree on whether anything was found: %v %v at %d", ranking, grades, k)
			}
			if eval.Recall(ranking, grades, k+1) < recall || eval.ReciprocalRank(ranking, grades, k+1) < rr {
				t.Fatalf("a longer look finds less: %v %v at %d", ranking, grades, k)
			}
		}
	}
}

func TestMean(t *testing.T) {
	got := eval.Mean([]eval.Metrics{{Recall5: 1, NDCG10: 0.5}, {Recall5: 0.5}, {Success10: 1}, {}})
	want := eval.Metrics{Recall5: 0.375, NDCG10: 0.125, Success10: 0.25}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := eval.Mean(nil); got != (eval.Metrics{}) {
		t.Errorf("mean of nothing: %+v", got)
	}
}

func TestPercentiles(t *testing.T) {
	var durations []time.Duration
	for i := range 200 {
		durations = append(durations, time.Duration(200-i)*time.Millisecond)
	}
	if got, want := eval.NewPercentiles(durations), (eval.Percentiles{P50: 100, P95: 190, P99: 198}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := eval.NewPercentiles(durations[:1]), (eval.Percentiles{P50: 200, P95: 200, P99: 200}); got != want {
		t.Errorf("of one: got %+v, want %+v", got, want)
	}
	if got := eval.NewPercentiles(nil); got != (eval.Percentiles{}) {
		t.Errorf("of none: %+v", got)
	}
}
