package spending

import (
	"cmp"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/budget"
)

// Rule is how a gateway divides the budget of a recall among its legs, by name. A leg that it lacks gets all the legs' time.
type Rule map[string]budget.Leg

func (r Rule) leg(name string) budget.Leg {
	if leg, ok := r[name]; ok {
		return leg
	}
	return budget.Leg{Share: 1}
}

// prediction says how a leg's search would end under another budget.
type prediction int

const (
	kept    prediction = iota
	dropped            // it needs more time
	unknown            // it may need more time: it was cut off sooner
	lost               // it has no result, whatever its budget
)

// predict returns the prediction for each leg of a recall under another budget. Each leg gets the time that the gateway would
// give it.
func (r Rule) predict(of *recall, total time.Duration) map[string]prediction {
	out := make(map[string]prediction, len(of.legs))
	plan, err := budget.DefaultConfig().Plan(total, of.reranked)
	for name, leg := range of.legs {
		allowed, tooLittle := r.leg(name).Allot(plan.Legs, 0)
		if err != nil || tooLittle != "" {
			allowed = 0
		}
		out[name] = leg.within(allowed)
	}
	return out
}

// within returns the prediction for a leg's search with this much time.
func (l leg) within(allowed time.Duration) prediction {
	switch {
	case l.outcome == broken:
		return lost
	case allowed <= 0 || l.spent > allowed:
		return dropped
	case l.outcome == cutOff && allowed > max(l.budget, l.spent):
		return unknown
	case l.outcome == cutOff:
		return dropped
	}
	return kept
}

// Dropped is how often a leg would be dropped. Both are shares of the recalls in which the leg was asked and not broken.
type Dropped struct {
	Share   float64 `json:"share"`   // certainly dropped
	Unknown float64 `json:"unknown"` // perhaps dropped: the search was cut off sooner
}

// Lost is a set of legs that would be lost in the same recall.
type Lost struct {
	Legs  []string `json:"legs"`  // sorted; empty if every leg would answer
	Share float64  `json:"share"` // of all recalls
}

// Point is the prediction for one budget.
type Point struct {
	Budget float64            `json:"budget_ms"`
	Legs   map[string]Dropped `json:"legs"`
	// Together are the sets of legs lost in the same recall, most frequent first. Unknown counts as dropped.
	Together []Lost `json:"together"`
	// Quality is by set of queries and measure. It is nil without an evaluation.
	Quality map[string]map[string]Range `json:"quality,omitempty"`
}

// Range bounds a value.
type Range struct {
	Low  float64 `json:"low"`  // if unknown means dropped
	High float64 `json:"high"` // if unknown means kept
}

func (r Rule) point(all []*recall, total time.Duration, quality *Quality) Point {
	p := Point{Budget: milliseconds(total), Legs: map[string]Dropped{}}
	asked := map[string]float64{}
	worst, best := map[string]float64{}, map[string]float64{} // shares of sets of legs, by key
	for _, of := range all {
		var low, high []string
		for name, predicted := range r.predict(of, total) {
			if predicted != lost {
				asked[name]++
			}
			d := p.Legs[name]
			switch predicted {
			case dropped:
				d.Share++
			case unknown:
				d.Unknown++
			}
			p.Legs[name] = d
			if predicted != kept {
				low = append(low, name)
			}
			if predicted == dropped || predicted == lost {
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
