package gateway_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/revision"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// statement answers recalls by a function.
type statement struct {
	triskelev1.RecallServiceClient
	recall func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
}

func (s statement) Recall(ctx context.Context, req *triskelev1.RecallRequest, _ ...grpc.CallOption) (*triskelev1.RecallResponse, error) {
	return s.recall(ctx, req)
}

// findsTwo answers as one statement that knows of two legs and finds s and t.
func findsTwo(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	resp := &triskelev1.RecallResponse{Legs: []*triskelev1.LegReport{
		{Leg: "lexical", State: triskelev1.LegState_LEG_STATE_OK, Returned: 2}, {Leg: "dense", State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: "nothing in it"},
	}}
	for i, id := range []string{"s", "t"} {
		value := 1 / (req.GetFusion().GetK() + float64(i+1))
		resp.Hits = append(resp.Hits, &triskelev1.Hit{
			Id: id, Namespace: req.GetNamespaces()[0], Score: value, Prior: 1, CreatedAt: timestamppb.New(time.Unix(0, 0)), Memory: &triskelev1.Memory{Id: id, Content: "from the statement"},
			Contributions: []*triskelev1.Contribution{{Leg: "lexical", Rank: int32(i + 1), Weight: 1, Value: value}},
		})
	}
	resp.Hits = resp.Hits[:min(len(resp.Hits), int(req.GetLimit()))]
	return resp, nil
}

func stated(recall func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)) func(*gateway.Config) {
	return func(c *gateway.Config) { c.Statement = statement{recall: recall} }
}

func TestOneStatementAnswers(t *testing.T) {
	var asked *triskelev1.RecallRequest
	g := configured(t, stated(func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		asked = req
		return findsTwo(ctx, req)
	}), memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Explain = false
		r.Legs = map[string]*triskelev1.LegOptions{"lexical": {Weight: new(2.), Depth: new(int32(7))}}
		r.Diversity = &triskelev1.Diversity{Resemblance: 1}
	}))
	if err != nil || order(resp) != "s" || states(resp) != "OK ABSTAINED SKIPPED" || resp.GetDegraded() || resp.GetLegs()[0].GetReturned() != 2 || len(resp.GetHits()[0].GetDuplicates()) != 1 {
		t.Errorf("%v, %v", resp, err)
	}
	if l := asked.GetLegs()["lexical"]; l.GetWeight() != 2 || l.GetDepth() != 7 || asked.GetFusion().GetK() != 60 || asked.GetLimit() != 1000 {
		t.Errorf("asked %v", asked)
	}
	if resp.GetHits()[0].GetMemory().GetContent() != "from the statement" {
		t.Errorf("contents were fetched again: %v", resp.GetHits()[0])
	}
	if resp, err = g.Recall(t.Context(), request(nil)); err != nil || order(resp) != "s t" || len(resp.GetHits()[0].GetContributions()) != 1 || resp.GetHits()[0].GetMatches() == nil {
		t.Errorf("explained: %v, %v", resp, err)
	}
}

// What one statement cannot do, the legs do.
func TestBeyondOneStatement(t *testing.T) {
	g := configured(t, stated(findsTwo), memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
	one := func(edit func(*triskelev1.LegOptions)) func(*triskelev1.RecallRequest) {
		return func(r *triskelev1.RecallRequest) {
			o := &triskelev1.LegOptions{}
			edit(o)
			r.Legs = map[string]*triskelev1.LegOptions{"lexical": o}
		}
	}
	for name, edit := range map[string]func(*triskelev1.RecallRequest){
		"two namespaces": func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"n", "m"} },
		"convex":         merged(convex),
		"a bonus":        func(r *triskelev1.RecallRequest) { r.Fusion = &triskelev1.Fusion{ExactBonus: new(1.)} },
		"recency": func(r *triskelev1.RecallRequest) {
			r.Recency = &triskelev1.Recency{Weight: .5, HalfLife: durationpb.New(time.Hour)}
		},
		"at least": func(r *triskelev1.RecallRequest) {
			r.AtLeast = []string{revision.Token{Namespace: "n", Sequence: 1}.String()}
		},
		"as of":       func(r *triskelev1.RecallRequest) { r.AsOf = timestamppb.Now() },
		"required":    func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"graph"} },
		"quota":       one(func(o *triskelev1.LegOptions) { o.Quota = new(int32(1)) }),
		"least score": one(func(o *triskelev1.LegOptions) { o.MinScore = new(.1) }),
		"deadline":    one(func(o *triskelev1.LegOptions) { o.Deadline = durationpb.New(50 * ms) }),
		"BM25":        one(func(o *triskelev1.LegOptions) { o.Scorer = triskelev1.Scorer_SCORER_BM25 }),
		"traversal":   one(func(o *triskelev1.LegOptions) { o.Traversal = triskelev1.Traversal_TRAVERSAL_PAGERANK }),
	} {
		resp, err := g.Recall(t.Context(), request(edit))
		if err != nil || order(resp) != "a" && order(resp) != "a a" {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	if resp, err := g.Recall(t.Context(), request(one(func(o *triskelev1.LegOptions) { o.Scorer = triskelev1.Scorer_SCORER_TS_RANK }))); err != nil || order(resp) != "s t" {
		t.Errorf("ts_rank: %v, %v", resp, err)
	}
}

// It ends as a whole: late or broken, there is no answer, and nobody learns why in the database's words.
func TestOneStatementFails(t *testing.T) {
	for name, x := range map[string]struct {
		recall func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
		code   codes.Code
		takes  time.Duration
	}{
		"late": {func(ctx context.Context, _ *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}, codes.Unavailable, 80 * ms},
		"broken": {func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return nil, status.Error(codes.Internal, "secret")
		}, codes.Unavailable, 0},
		"refused": {func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return nil, status.Error(codes.InvalidArgument, "vector: must have 3 dimensions")
		}, codes.InvalidArgument, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := configured(t, stated(x.recall), memories{}, finds(bm25, "a"), finds(cosine), finds(hops))
			start := time.Now()
			_, err := g.Recall(t.Context(), request(nil))
			if status.Code(err) != x.code || time.Since(start) != x.takes || x.code == codes.Unavailable && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
		})
	}
}
