package graph

import (
	"context"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// Constants of searches.
const (
	HopDecay  = hopDecay
	MaxDegree = maxDegree
)

// SearchInSQL searches as if the image were too large.
func (l *Leg) SearchInSQL(ctx context.Context, q leg.Query) (leg.Result, error) {
	result, err := l.fallback(ctx, q, phrases(words(q.Text, maxQueryWords), maxNameWords), replica.ErrTooLarge)
	l.name(ctx, q.Namespace, result.Paths)
	return result, err
}
