package spending

import (
	"cmp"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/budget"
)

// Rule is how a gateway divides the budget of a recall. The zero value is the default configuration.
type Rule struct {
	Budget budget.Config         // the zero value for the default
	Legs   map[string]budget.Leg // by name; a leg that is not here has all the time of the first wave
}

func (r Rule) leg(name string) budget.Leg {
	if leg, ok := r.Legs[name]; ok {
		return leg
	}
	return budget.Leg{Share: 1}
}

// verdict is what would have become of a leg.
type verdict int

const (
	kept    verdict = iota
	dropped         // it is known to have needed more time
	unknown         // it was cut off before: perhaps
	lost            // it gave nothing, whatever its time
)

// verdicts says what would have become of a recall's legs, had its budget been another. Each has as long as the gateway
// would have given it; a leg of the second wave begins when those of the first have ended.
func (r Rule) verdicts(of *recall, total time.Duration) map[string]verdict {
	out := make(map[string]verdict, len(of.legs))
	stages := budget.Stages{Rerank: of.reranked}
	for name := range of.legs {
		stages.Second = stages.Second || r.leg(name).Second
	}
	config := r.Budget
	if config == (budget.Config{}) {
		config = budget.DefaultConfig()
	}
	plan, err := config.Plan(total, stages)
	var firstEnds time.Duration
	for _, second := range []bool{false, true} {
		left := plan.First
		if second {
			left = plan.Second - firstEnds
		}
		for name, leg := range of.legs {
			if r.leg(name).Second != second {
				continue
			}
			allowed, tooLittle := r.leg(name).Allot(left, 0)
			if err != nil || tooLittle != "" {
				allowed = 0
			}
			out[name] = leg.verdict(allowed)
			if !second {
				firstEnds = max(firstEnds, min(leg.spent, allowed))
			}
		}
	}
	return out
}

func (l leg) verdict(allowed time.Duration) verdict {
	switch {
	case l.fate == broken:
		return lost
	case allowed <= 0 || l.spent > allowed:
		return dropped
	case l.fate == cutOff && allowed > max(l.budget, l.spent):
		return unknown
	case l.fate == cutOff:
		return dropped
	}
	return kept
}

// Dropped is how often a leg would have been dropped, as shares of the recalls in which it was asked and nothing but time
// stood in its way.
type Dropped struct {
	Share   float64 `json:"share"`   // surely
	Unknown float64 `json:"unknown"` // perhaps as well: it was cut off sooner than that
}

// Lost is a set of legs that would have been lost together.
type Lost struct {
	Legs  []string `json:"legs"`  // sorted; none if every leg would have answered
	Share float64  `json:"share"` // of all recalls
}

// Point is what a budget would have meant.
type Point struct {
	Budget float64            `json:"budget_ms"`
	Legs   map[string]Dropped `json:"legs"`
	// Together are the sets of legs lost in the same recall, most frequent first, taking what is unknown as dropped.
	Together []Lost `json:"together"`
	// Quality is by set of queries and measure; nil without an evaluation.
	Quality map[string]map[string]Range `json:"quality,omitempty"`
}

// Range is a value that is not known better.
type Range struct {
	Low  float64 `json:"low"`  // if what is unknown was dropped
	High float64 `json:"high"` // if it was not
}

// point works out one budget.
func (r Rule) point(all []*recall, total time.Duration, quality *Quality) Point {
	p := Point{Budget: milliseconds(total), Legs: map[string]Dropped{}}
	asked := map[string]float64{}
	worst, best := map[string]float64{}, map[string]float64{} // shares of sets of legs, by key
	for _, of := range all {
		var low, high []string
		for name, v := range r.verdicts(of, total) {
			if v != lost {
				asked[name]++
			}
			d := p.Legs[name]
			switch v {
			case dropped:
				d.Share++
			case unknown:
				d.Unknown++
			}
			p.Legs[name] = d
			if v != kept {
				low = append(low, name)
			}
			if v == dropped || v == lost {
				high = append(high, name)
			}
		}
		worst[key(low)] += 1 / float64(len(all))
		best[key(high)] += 1 / float64(len(all))
	}
	for name, d := range p.Legs {
		if n := asked[name]; n > 0 {
			p.Legs[name] = Dropped{d.Share / n, d.Unknown / n}
		}
	}
	for set, share := range worst {
		p.Together = append(p.Together, Lost{legsOf(set), share})
	}
	slices.SortFunc(p.Together, func(a, b Lost) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(key(a.Legs), key(b.Legs)))
	})
	if quality != nil {
		p.Quality = quality.under(worst, best)
	}
	return p
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
