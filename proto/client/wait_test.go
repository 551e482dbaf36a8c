package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// statuses answers GetIndexStatus with one response after the other, the last one again and again.
type statuses struct {
	triskelev1.RecallServiceClient
	responses []*triskelev1.RecallServiceGetIndexStatusResponse
	asked     int
}

func (s *statuses) GetIndexStatus(context.Context, *triskelev1.RecallServiceGetIndexStatusRequest, ...grpc.CallOption) (*triskelev1.RecallServiceGetIndexStatusResponse, error) {
	s.asked++
	return s.responses[min(s.asked, len(s.responses))-1], nil
}

func indexes(pending, dead int64, failure string) *triskelev1.RecallServiceGetIndexStatusResponse {
	second := &triskelev1.LegIndexStatus{Leg: "dense", Error: failure}
	if failure == "" {
		second.Status = &triskelev1.GetIndexStatusResponse{Pending: pending, Dead: dead}
	}
	return &triskelev1.RecallServiceGetIndexStatusResponse{Legs: []*triskelev1.LegIndexStatus{{Leg: "lexical", Status: &triskelev1.GetIndexStatusResponse{}}, second}}
}

func TestWaitIndexed(t *testing.T) {
	for name, test := range map[string]struct {
		responses []*triskelev1.RecallServiceGetIndexStatusResponse
		pending   []int64
		err       string
	}{
		"caught up":    {[]*triskelev1.RecallServiceGetIndexStatusResponse{indexes(5, 0, ""), indexes(2, 1, ""), indexes(0, 0, "")}, []int64{5, 2}, ""},
		"given up on":  {[]*triskelev1.RecallServiceGetIndexStatusResponse{indexes(5, 0, ""), indexes(0, 3, "")}, []int64{5}, "3 memories of namespace n could not be indexed"},
		"out of reach": {[]*triskelev1.RecallServiceGetIndexStatusResponse{indexes(0, 0, "cannot be reached")}, nil, "dense leg cannot be asked: cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &client.Client{Recalls: &statuses{responses: test.responses}}
			var pending []int64
			err := c.WaitIndexed(t.Context(), "n", func(n int64) { pending = append(pending, n) })
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
			if !slices.Equal(pending, test.pending) {
				t.Errorf("got progress %v, want %v", pending, test.pending)
			}
		})
	}
}

func TestWaitIndexedEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &client.Client{Recalls: &statuses{responses: []*triskelev1.RecallServiceGetIndexStatusResponse{indexes(1, 0, "")}}}
	if err := c.WaitIndexed(ctx, "n", func(int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
