package evidence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/tests/lab/evidence"
)

// TestDefaultsFollowTheVerdicts: a gateway that fuses ranks, and has no policy, ranks as one with the policy that the newest verdict is
// for. The calibrated fusion learns its weights.
func TestDefaultsFollowTheVerdicts(t *testing.T) {
	files, err := filepath.Glob("../../../docs/evidence/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no verdicts: %v", err)
	}
	decided := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var outcome evidence.Outcome
		if err := json.Unmarshal(text, &outcome); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, v := range outcome.Verdicts {
			if v.Policy == "" {
				continue
			}
			decided++
			policy := &triskelev1.RecallPolicy{}
			if err := protojson.Unmarshal([]byte(v.Policy), policy); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if by, verdict := ranked(t, nil), ranked(t, policy); !proto.Equal(by, verdict) {
				t.Errorf("%s, %s: the default is not %s:\n%v\n%v", file, v.Hypothesis, v.Policy, by, verdict)
			}
		}
	}
	if decided == 0 {
		t.Error("no verdict decides a default")
	}
}

// ranked is what a gateway makes of lists that overlap in part.
func ranked(t *testing.T, policy *triskelev1.RecallPolicy) *triskelev1.RecallResponse {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.DefaultConfig()
	config.Legs, config.Fusion.Method = gateway.DefaultLegs(nil), "rrf"
	if policy != nil {
		config.Policies = map[string]*triskelev1.RecallPolicy{"": policy}
	}
	legs := []triskelev1.LegServiceClient{
		list{first: 0, step: 1, kind: triskelev1.ScoreKind_SCORE_KIND_BM25},
		list{first: 10, step: 3, kind: triskelev1.ScoreKind_SCORE_KIND_COSINE},
		list{first: 25, step: 2, kind: triskelev1.ScoreKind_SCORE_KIND_PAGERANK},
	}
	g, err := gateway.New(config, legs, nil, process.Service("fuser"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	hits := int32(100)
	resp, err := g.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "q", Limit: &hits, IdsOnly: true, Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	return &triskelev1.RecallResponse{Hits: resp.GetHits()}
}

// list is a leg that finds every step-th memory from the first on, as many as it is asked for, and has a score for all.
type list struct {
	triskelev1.LegServiceClient
	first, step int
	kind        triskelev1.ScoreKind
}

func (l list) Search(_ context.Context, req *triskelev1.SearchRequest, _ ...grpc.CallOption) (*triskelev1.SearchResponse, error) {
	resp := &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: l.kind, Coverage: 0.5}
	for i := range int(req.GetDepth()) {
		resp.Hits = append(resp.Hits, &triskelev1.LegHit{Id: fmt.Sprintf("%08d-0000-0000-0000-000000000000", l.first+i*l.step), Rank: int32(i + 1), Score: 1 / float64(i+2), Importance: 0.5})
	}
	return resp, nil
}

func (l list) ScoreByIds(_ context.Context, req *triskelev1.ScoreByIdsRequest, _ ...grpc.CallOption) (*triskelev1.ScoreByIdsResponse, error) {
	resp := &triskelev1.ScoreByIdsResponse{ScoreKind: l.kind}
	for _, id := range req.GetIds() {
		resp.Scores = append(resp.Scores, &triskelev1.ScoreByIdsResponse_Score{Id: id, Score: 0.001})
	}
	return resp, nil
}
