package fusion

import (
	"math"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// The prior is priorBase for importance 0, and rises by priorPerUnit to 1 for importance 1.
const (
	priorBase    = 0.7
	priorPerUnit = 0.3
	// leastRecency is the least factor of an old memory: with 0, all scores would be equal.
	leastRecency = 1e-250
)

// Recency lets relevance decay with age: it multiplies a score by (1-Weight) + Weight × 0.5^(age/HalfLife). The zero value
// does nothing.
type Recency struct {
	Weight   float64 // 0 to 1
	HalfLife time.Duration
	Now      time.Time
}

func (r Recency) of(created time.Time) float64 {
	if r.Weight == 0 || r.HalfLife <= 0 {
		return 1
	}
	age := max(r.Now.Sub(created), 0)
	return max(1-r.Weight+r.Weight*math.Exp2(-float64(age)/float64(r.HalfLife)), leastRecency)
}

// EntityBoost raises memories that mention entities of the query: it multiplies a score by 1 + Weight × min(entities,
// MaxTerms). The zero value does nothing.
type EntityBoost struct {
	Weight   float64 // 0 or more
	MaxTerms int
}

func (b EntityBoost) of(entities int) float64 { return 1 + b.Weight*float64(min(entities, b.MaxTerms)) }

func (o Options) prior(hit *Hit) float64 {
	switch o.Sort {
	case triskelev1.SortBy_SORT_BY_IMPORTANCE, triskelev1.SortBy_SORT_BY_RECENCY:
		return 1
	}
	prior := (priorBase + priorPerUnit*hit.Importance) * o.Recency.of(hit.CreatedAt)
	if o.Method == calibrated {
		prior /= usualPrior
	}
	return prior
}
