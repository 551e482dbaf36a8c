package recent

import (
	"maps"
	"math"
	"slices"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// Step is the resolution of the history.
	Step  = 10 * time.Second
	steps = 360 // kept, an hour
	// bins of a histogram. Each is 2^(1/8) times as wide as the one below, so percentiles are off by 5 % at most.
	bins      = 168
	shortest  = 50 * time.Microsecond
	perDouble = 8
)

// Whole is the name of all legs together.
const Whole = ""

// history is a leg's recent steps. New ones overwrite the oldest.
type history struct{ steps [steps]step }

type step struct {
	number int64 // since 1970
	counts [bins]uint32
	budget time.Duration // the sum of all
	states map[triskelev1.LegState]int
}

// Live is a leg's statistics over some time.
type Live struct {
	Leg           string // Whole for all of them together
	Searches      int
	P50, P95, P99 time.Duration
	Budget        time.Duration // the mean
	States        map[triskelev1.LegState]int
	Series        []Point // by Step; none for steps without a search
}

// Point is a step of it.
type Point struct {
	Start                 time.Time
	Searches              int
	Lacking               int // of them that gave nothing, or less than all
	P50, P95, P99, Budget time.Duration
}

func (g *Ring) observe(r *Recall) {
	number := r.Start.Add(r.Took).UnixNano() / int64(Step)
	add := func(leg string, took, budget time.Duration, state triskelev1.LegState) {
		h := g.history[leg]
		if h == nil {
			h = &history{}
			g.history[leg] = h
		}
		s := &h.steps[number%steps]
		if s.number != number {
			*s = step{number: number, states: map[triskelev1.LegState]int{}}
		}
		s.states[state]++
		if state != triskelev1.LegState_LEG_STATE_SKIPPED { // a skipped leg took no time
			s.counts[bin(took)]++
			s.budget += budget
		}
	}
	whole := triskelev1.LegState_LEG_STATE_OK
	switch {
	case r.Failed != "":
		whole = triskelev1.LegState_LEG_STATE_FAILED
	case r.Degraded != "":
		whole = triskelev1.LegState_LEG_STATE_TRUNCATED
	}
	add(Whole, r.Took, r.Budget, whole)
	for _, l := range r.Legs {
		add(l.Name, l.Spent, l.Budget, l.State)
	}
}

// Live returns each leg's statistics over the hour until now, by name, Whole first.
func (g *Ring) Live(now time.Time) []Live {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := now.UnixNano() / int64(Step)
	var out []Live
	for _, leg := range slices.Sorted(maps.Keys(g.history)) {
		live := Live{Leg: leg, States: map[triskelev1.LegState]int{}}
		var sum [bins]uint32
		for number := newest - steps + 1; number <= newest; number++ {
			s := &g.history[leg].steps[number%steps]
			if s.number != number {
				continue
			}
			for state, n := range s.states {
				live.States[state] += n
			}
			for i, n := range s.counts {
				sum[i] += n
			}
			live.Budget += s.budget
			if n := searches(&s.counts); n > 0 {
				lacking := s.states[triskelev1.LegState_LEG_STATE_TRUNCATED] + s.states[triskelev1.LegState_LEG_STATE_TIMED_OUT] + s.states[triskelev1.LegState_LEG_STATE_FAILED]
				live.Series = append(live.Series, Point{
					time.Unix(0, number*int64(Step)).UTC(), n, lacking, percentile(&s.counts, 50), percentile(&s.counts, 95), percentile(&s.counts, 99), s.budget / time.Duration(n),
				})
			}
		}
		live.P50, live.P95, live.P99 = percentile(&sum, 50), percentile(&sum, 95), percentile(&sum, 99)
		if live.Searches = searches(&sum); live.Searches > 0 {
			live.Budget /= time.Duration(live.Searches)
		}
		out = append(out, live)
	}
	return out
}

func bin(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Ceil(perDouble*math.Log2(float64(d)/float64(shortest)))), bins-1)
}

func searches(counts *[bins]uint32) (n int) {
	for _, c := range counts {
		n += int(c)
	}
	return n
}

// percentile returns the middle of the bin of the nearest rank; 0 for none.
func percentile(counts *[bins]uint32, percent int) time.Duration {
	rank := (percent*searches(counts) + 99) / 100
	for i, seen := 0, 0; i < bins; i++ {
		if seen += int(counts[i]); counts[i] > 0 && seen >= rank {
			return time.Duration(float64(shortest) * math.Exp2((float64(i)-0.5)/perDouble))
		}
	}
	return 0
}
