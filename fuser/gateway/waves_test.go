package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// secondWave puts the graph leg into the second wave.
func secondWave(c *gateway.Config) {
	c.Legs[2].Budget.Second = true
	c.Legs[2].Weight, c.Legs[2].Trust = .35, 0 // what it alone finds is last
}

func TestSecondWaveStartsFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked *triskelev1.SearchRequest
		var given time.Duration
		dense := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			resp, err := after(20*ms, cosine, "b", "c").search(ctx, req)
			if req.GetReturnVector() {
				resp.Vector, resp.VectorModel = []float32{3, 4}, "m"
			}
			return resp, err
		}}
		graph := leg{search: func(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
			deadline, _ := ctx.Deadline()
			asked, given = req, time.Until(deadline)
			return after(5*ms, hops, "x").search(ctx, req)
		}}
		g := configured(t, secondWave, memories{}, after(10*ms, bm25, "a", "b"), dense, graph)
		start := time.Now()
		resp, err := g.Recall(t.Context(), request(nil))
		if err != nil || time.Since(start) != 25*ms || states(resp) != "OK OK OK" || order(resp) != "b a c x" {
			t.Fatalf("%v, %v after %v", resp, err, time.Since(start))
		}
		var seeds []string
		for _, s := range asked.GetSeeds() {
			seeds = append(seeds, fmt.Sprintf("%s %.3f", s.GetId(), s.GetScore()))
		}
		if got := strings.Join(seeds, ", "); got != "b 1.000, a 0.504, c 0.496" || len(asked.GetVector()) != 2 || asked.GetVectorModel() != "m" {
			t.Errorf("seeds %s, vector %v of %q", got, asked.GetVector(), asked.GetVectorModel())
		}
		// 80 ms of 100 are for the legs; what the first wave left of its 56 is the second's too.
		if given != 60*ms || resp.GetLegs()[2].GetBudget().AsDuration() != 60*ms || resp.GetLegs()[0].GetBudget().AsDuration() != 56*ms {
			t.Errorf("the second wave got %v, the reports are %v", given, resp.GetLegs())
		}
	})
}

func TestSecondWaveGetsWhatIsLeft(t *testing.T) {
	for name, x := range map[string]struct {
		dense  leg
		edit   func(*triskelev1.RecallRequest)
		states string
		reason string
		takes  time.Duration
	}{
		"a hanging first wave leaves its share": {dense: after(time.Hour, cosine), states: "OK TIMED_OUT OK", takes: 57 * ms},
		"nothing useful is left": {
			dense: after(time.Hour, cosine), edit: func(r *triskelev1.RecallRequest) { r.Budget = durationpb.New(6 * ms) },
			states: "OK TIMED_OUT SKIPPED", reason: "its share of the budget would be 0s, but it needs 2ms", takes: 4 * ms,
		},
		"first wave switched off": {
			dense: finds(cosine), edit: func(r *triskelev1.RecallRequest) {
				off := &triskelev1.LegOptions{Enabled: new(bool)}
				r.Legs = map[string]*triskelev1.LegOptions{"lexical": off, "dense": off}
			},
			states: "SKIPPED SKIPPED OK", takes: ms,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := configured(t, secondWave, memories{}, finds(bm25, "a"), x.dense, after(ms, hops, "x"))
			start := time.Now()
			resp, err := g.Recall(t.Context(), request(x.edit))
			if err != nil || states(resp) != x.states || time.Since(start) != x.takes || x.reason != "" && resp.GetLegs()[2].GetReason() != x.reason {
				t.Errorf("%s: %v, %v after %v", name, resp, err, time.Since(start))
			}
		})
	}
}

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
