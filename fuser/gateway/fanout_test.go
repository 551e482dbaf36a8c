package gateway

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
)

func TestSlowestLegStartsLast(t *testing.T) {
	g := &Gateway{}
	outcomes := make([]outcome, 4)
	for i, usual := range []time.Duration{2 * time.Millisecond, 3 * time.Millisecond, time.Millisecond, 0} {
		outcomes[i].leg = i
		g.legs = append(g.legs, legClient{dependency: &dependency{}})
		for n := 0; usual > 0 && n < 40; n++ {
			took := usual
			if n%10 == i {
				took = time.Second // now and then, which says nothing
			}
			g.legs[i].latency.Add(took)
		}
	}
	if got, want := g.slowestLast(outcomes), []int{3, 2, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: an unknown leg first, then 1, 2 and 3 ms", got, want)
	}
}

// TestOverlapOfLongLists: a traced recall with the highest limit takes no longer for the share of hits that its legs have in common.
func TestOverlapOfLongLists(t *testing.T) {
	t.Parallel()
	const n = 9_999
	outcomes := make([]outcome, 3)
	for leg := range outcomes {
		for i := range n {
			outcomes[leg].hits = append(outcomes[leg].hits, fusion.Hit{ID: fmt.Sprintf("%032d", (leg+1)*n/3+i)})
		}
	}
	start := time.Now()
	share, compared := overlap(outcomes, n)
	if want := (2./3 + 1./3 + 2./3) / 3; !compared || math.Abs(share-want) > 1e-9 {
		t.Errorf("got %v, %v, want %v", share, compared, want)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("three lists of %d hits took %v", n, took)
	}
}
