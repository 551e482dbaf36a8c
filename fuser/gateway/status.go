package gateway

import (
	"context"
	"sync"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// GetIndexStatus implements triskelev1.RecallServiceServer.
func (g *Gateway) GetIndexStatus(ctx context.Context, req *triskelev1.RecallServiceGetIndexStatusRequest) (*triskelev1.RecallServiceGetIndexStatusResponse, error) {
	resp := &triskelev1.RecallServiceGetIndexStatusResponse{Legs: make([]*triskelev1.LegIndexStatus, len(g.config.Legs))}
	ctx, cancel := context.WithTimeout(ctx, g.config.Budget.Max)
	defer cancel()
	var wg sync.WaitGroup
	for i, leg := range g.config.Legs {
		wg.Go(func() {
			out := &triskelev1.LegIndexStatus{Leg: leg.Name}
			st, err := caught(ctx, g.log, leg.Name, func() (*triskelev1.GetIndexStatusResponse, error) {
				return g.legs[i].GetIndexStatus(ctx, &triskelev1.GetIndexStatusRequest{Namespace: req.GetNamespace()})
			})
			if err != nil {
				_, out.Error = g.failure(ctx, leg.Name, err, g.config.Budget.Max)
			}
			out.Status = st
			resp.Legs[i] = out
		})
	}
	wg.Wait()
	return resp, nil
}
