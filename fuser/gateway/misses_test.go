package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

func TestTooLittleTimeForALeg(t *testing.T) {
	g := configured(t, func(c *gateway.Config) { c.Legs[1].Budget.Min = 90 * ms }, memories{}, finds(bm25, "a"), finds(cosine, "b"), finds(hops))
	resp, err := g.Recall(t.Context(), request(nil))
	if err != nil || states(resp) != "OK SKIPPED OK" || resp.GetLegs()[1].GetReason() != "its share of the budget would be 80ms, but it needs 90ms" {
		t.Errorf("%v, %v", resp, err)
	}
	if !strings.Contains(resp.GetDegradedReason(), "the dense leg was skipped (its share of the budget would be") {
		t.Errorf("reason %q", resp.GetDegradedReason())
	}
}

func TestMissPolicies(t *testing.T) {
	fail := triskelev1.MissPolicy_MISS_POLICY_FAIL
	onError := func(r *triskelev1.RecallRequest) { r.OnError = fail }
	onTimeout := func(r *triskelev1.RecallRequest) { r.OnTimeout = fail }
	for name, x := range map[string]struct {
		dense leg
		edit  func(*triskelev1.RecallRequest)
		fails string
		takes time.Duration
	}{
		"error, not allowed":   {fails(codes.Unavailable), onError, "with on_error set to fail, leg dense did not answer: FAILED", 0},
		"error, allowed":       {fails(codes.Unavailable), onTimeout, "", 30 * ms},
		"timeout, not allowed": {after(time.Hour, cosine), onTimeout, "with on_timeout set to fail, leg dense did not answer: TIMED_OUT", 80 * ms},
		"timeout, allowed":     {after(time.Hour, cosine), onError, "", 80 * ms},
		"nothing to say":       {answers(&triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_ABSTAINED}), onError, "", 30 * ms},
		"switched off": {finds(cosine), func(r *triskelev1.RecallRequest) {
			onError(r)
			r.Legs = map[string]*triskelev1.LegOptions{"dense": {Enabled: new(bool)}}
		}, "", 30 * ms},
		"required, fails early": {fails(codes.Internal), func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"dense"} }, "required leg dense did not answer: FAILED", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, memories{}, finds(bm25, "a"), x.dense, after(30*ms, hops))
			start := time.Now()
			_, err := g.Recall(t.Context(), request(x.edit))
			if (err != nil) != (x.fails != "") || time.Since(start) != x.takes {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			if x.fails != "" && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), x.fails)) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	// A leg that is not waited for any more is not the one that is missing.
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, memories{}, after(50*ms, bm25, "a"), fails(codes.Internal), finds(hops))
		_, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"lexical", "dense"} }))
		if err == nil || !strings.Contains(err.Error(), "required leg dense did not answer: FAILED") {
			t.Errorf("got %v, want an error about the dense leg", err)
		}
	})
	// Too little time to start a leg is being late.
	synctest.Test(t, func(t *testing.T) {
		g := configured(t, func(c *gateway.Config) { c.Legs[1].Budget.Min = time.Second; c.Budget.Default = 2 * time.Second }, memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
		if _, err := g.Recall(t.Context(), request(onError)); err != nil {
			t.Error(err)
		}
		if _, err := g.Recall(t.Context(), request(onTimeout)); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	})
}
