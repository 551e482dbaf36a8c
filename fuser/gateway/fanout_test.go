package gateway

import (
	"slices"
	"testing"
	"time"
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
