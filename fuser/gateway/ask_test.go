package gateway

import (
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// A leg that gives no own scores knows no threads, so its scores are all its memories' own.
func TestLentScores(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		own  [2]float64
		want [2]bool
	}{
		"no own scores":      {[2]float64{0, 0}, [2]bool{false, false}},
		"nothing lent":       {[2]float64{2, 1}, [2]bool{false, false}},
		"lent to the second": {[2]float64{2, 0}, [2]bool{false, true}},
	} {
		hits, err := readHits([]*triskelev1.LegHit{
			{Id: "a", Rank: 1, Score: 2, OwnScore: x.own[0]}, {Id: "b", Rank: 2, Score: 1, OwnScore: x.own[1]},
		}, 10)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := [2]bool{hits[0].Lent, hits[1].Lent}; got != x.want {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}
