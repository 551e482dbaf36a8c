package gateway

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// noteLegs adds the searches to the note for the list of recent recalls.
func (r *recall) noteLegs(outcomes []outcome) {
	if r.note == nil {
		return
	}
	r.note.Budget, r.note.Legs = r.plan.Total, make([]recent.Leg, 0, len(outcomes))
	for _, o := range outcomes {
		if o.off != "" {
			continue
		}
		leg := recent.Leg{
			Name: o.name, State: o.state, Reason: o.reason, Budget: o.budget, Spent: o.spent, Queued: o.queued, Hits: len(o.hits), Unneeded: o.unneeded,
		}
		if !o.began.IsZero() {
			leg.Start = o.began.Sub(r.start)
		}
		r.note.Legs = append(r.note.Legs, leg)
	}
}

// noteStage adds a stage that ends now to the note.
func (r *recall) noteStage(name string, began time.Time) {
	if r.note != nil {
		r.note.Stages = append(r.note.Stages, recent.Stage{Name: name, Start: began.Sub(r.start), Took: time.Since(began)})
	}
}

// gone reports whether a caller went away before its deadline: gRPC may tell of that as of a call that was cancelled.
func gone(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return errors.Is(ctx.Err(), context.Canceled) && !(bounded && time.Now().After(deadline))
}

// noteRecall adds a recall that has ended to the list of recent recalls, unless the gateway refused it or its caller went away.
func (g *Gateway) noteRecall(ctx context.Context, note *recent.Recall, id string, resp *triskelev1.RecallResponse, err error, spans []*triskelev1.Span) {
	if note == nil || status.Code(err) == codes.InvalidArgument || err != nil && gone(ctx) {
		return
	}
	note.TraceID, note.Took, note.Spans = id, time.Since(note.Start), spans
	if err != nil {
		note.Failed = status.Code(err).String()
	} else {
		note.Budget, note.Hits, note.Degraded = resp.GetBudget().AsDuration(), len(resp.GetHits()), resp.GetDegradedReason()
	}
	g.config.Recent.Add(note)
}
