package standalone_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/demo"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/postgres/pgtest"
	"github.com/triskele/triskele/services/standalone"
)

// generated are memories of few words, many of them alike, so that much has to be decided by importance, time and id. Some are
// sensitive, replaced or expired, and some have one of a few titles, which others mention.
func generated(random *rand.Rand, namespace string, n int) []*triskelev1.Memory {
	vocabulary := strings.Fields("kestrel merlin osprey harrier backup harbour vault deploy token crane spring autumn river bridge")
	out := make([]*triskelev1.Memory, n)
	for i := range out {
		var words []string
		for range 2 + random.IntN(5) {
			words = append(words, vocabulary[random.IntN(len(vocabulary))])
		}
		out[i] = &triskelev1.Memory{
			Id: fmt.Sprintf("0190b3a0-0000-7000-8000-%012d", random.IntN(1e9)), Namespace: namespace, Content: strings.Join(words, " "),
			Tags: []string{fmt.Sprintf("t%d", i%3)}, Importance: proto.Float64(float64(random.IntN(3)) / 2), Sensitive: i%7 == 0,
			CreatedAt: timestamppb.New(time.Date(2025, 1, 1+random.IntN(3), 0, 0, 0, 0, time.UTC)),
		}
		if name := fmt.Sprintf("Project Tern %d", random.IntN(12)); i%5 == 0 {
			out[i].Title = name
		} else if i%5 == 1 {
			out[i].Content += " as in " + name + fmt.Sprintf(" and Project Tern %d", random.IntN(12))
		}
		if i%11 == 0 {
			out[i].ExpiresAt = timestamppb.New(time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC))
		}
	}
	return out
}

// TestOneStatementAnswersLikeTheFanOut asks both, on the demonstration's memories and on generated ones: every hit, rank, score
// and share is the same.
func TestOneStatementAnswersLikeTheFanOut(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	fanOut, memory := start(t, standalone.Config{Postgres: url}, embed.NewHashed())
	oneStatement, _ := start(t, standalone.Config{Postgres: url, OneStatement: true}, embed.NewHashed())
	memories, err := demo.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	const small, many = "demo", "generated"
	for _, m := range memories {
		m.Namespace = small
	}
	load(t, memory, memories)
	load(t, memory, generated(rand.New(rand.NewPCG(1, 2)), many, 600))
	queries, err := demo.Queries()
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"kestrel", "what of Project Tern 7 and the kestrel", "kestrel backup vault", `"harbour vault" crane`, "nothing of the kind", "", "the of and", strings.Repeat("kestrel river bridge token ", 30) + strings.Join(words(80), " ")}
	for _, q := range queries {
		texts = append(texts, q.Text)
	}
	edits := map[string]func(*triskelev1.RecallRequest){
		"plain":         func(*triskelev1.RecallRequest) {},
		"by importance": func(r *triskelev1.RecallRequest) { r.SortBy = triskelev1.SortBy_SORT_BY_IMPORTANCE },
		"by time":       func(r *triskelev1.RecallRequest) { r.SortBy = triskelev1.SortBy_SORT_BY_RECENCY },
		// Deeper than there are such memories: else the leg may ask its index, which is not exact.
		"filtered": func(r *triskelev1.RecallRequest) {
			r.Filter = &triskelev1.Filter{TagsAny: []string{"t1", "ops"}}
			depths(r, 250, 250, 250)
		},
		"deep":      func(r *triskelev1.RecallRequest) { r.Limit = proto.Int32(200); depths(r, 150, 150, 150) },
		"shallow":   func(r *triskelev1.RecallRequest) { depths(r, 3, 2, 4) },
		"another k": func(r *triskelev1.RecallRequest) { r.Fusion = &triskelev1.Fusion{K: proto.Float64(1)} },
		"weights": func(r *triskelev1.RecallRequest) {
			r.Legs["dense"].Weight, r.Legs["lexical"].Weight, r.Legs["graph"].Weight = proto.Float64(.3), proto.Float64(2), proto.Float64(.35)
		},
		"by words alone":   func(r *triskelev1.RecallRequest) { off(r, "dense", "graph") },
		"by vector alone":  func(r *triskelev1.RecallRequest) { off(r, "lexical", "graph") },
		"by names alone":   func(r *triskelev1.RecallRequest) { off(r, "lexical", "dense") },
		"without names":    func(r *triskelev1.RecallRequest) { off(r, "graph") },
		"a vector":         func(r *triskelev1.RecallRequest) { r.Vector = make([]float32, 256); r.Vector[3], r.Vector[77] = 1, -2 },
		"without contents": func(r *triskelev1.RecallRequest) { r.IdsOnly = true },
		"without copies":   func(r *triskelev1.RecallRequest) { r.Diversity = &triskelev1.Diversity{Resemblance: .7} },
		"explained":        func(r *triskelev1.RecallRequest) { r.Explain = true },
	}
	compared, linked := 0, 0
	for name, edit := range edits {
		for i, text := range texts {
			for _, namespace := range []string{small, many} {
				if i > 6 && (name != "plain" || namespace != small) { // a handful of each will do
					continue
				}
				req := &triskelev1.RecallRequest{
					Namespaces: []string{namespace}, Query: text, Budget: durationpb.New(patience),
					Legs: map[string]*triskelev1.LegOptions{
						"lexical": {Scorer: triskelev1.Scorer_SCORER_TS_RANK}, "dense": {}, "graph": {Traversal: triskelev1.Traversal_TRAVERSAL_HOP_DECAY},
					},
				}
				edit(req)
				if text == "" && len(req.GetVector()) == 0 {
					continue
				}
				want, err := fanOut.Recall(t.Context(), req)
				if err != nil {
					t.Fatalf("%s, %q: %v", name, text, err)
				}
				got, err := oneStatement.Recall(t.Context(), req)
				if err != nil {
					t.Fatalf("%s, %q: %v", name, text, err)
				}
				for i := range want.GetLegs() {
					w, g := want.GetLegs()[i], got.GetLegs()[i]
					if w.GetState() != g.GetState() || w.GetReturned() != g.GetReturned() || w.GetScoreKind() != g.GetScoreKind() || w.GetWeight() != g.GetWeight() {
						t.Errorf("%s, %q in %s: %v, the fan-out has %v", name, text, namespace, g, w)
					}
				}
				rounded(want.GetHits())
				rounded(got.GetHits())
				if !proto.Equal(&triskelev1.RecallResponse{Hits: got.GetHits(), Fusion: got.GetFusion()}, &triskelev1.RecallResponse{Hits: want.GetHits(), Fusion: want.GetFusion()}) {
					t.Fatalf("%s, %q in %s:\n%v\nthe fan-out has\n%v", name, text, namespace, got.GetHits(), want.GetHits())
				}
				if got.GetDegraded() || want.GetDegraded() {
					t.Errorf("%s, %q: %s %s", name, text, got.GetDegradedReason(), want.GetDegradedReason())
				}
				compared += len(got.GetHits())
				linked += int(got.GetLegs()[2].GetReturned())
			}
		}
	}
	if compared < 500 || linked < 500 {
		t.Errorf("only %d hits were compared, for which the graph found %d", compared, linked)
	}
	// What one statement cannot do is done by the legs.
	resp, err := oneStatement.Recall(t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{many}, Query: "kestrel", Budget: durationpb.New(patience), Explain: true, Fusion: &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CONVEX},
	})
	if err != nil || resp.GetLegs()[0].GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_BM25 || resp.GetLegs()[2].GetState() == triskelev1.LegState_LEG_STATE_SKIPPED {
		t.Errorf("%v, %v", resp, err)
	}
	resp, err = oneStatement.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{many}, Query: "kestrel", Budget: durationpb.New(patience)})
	if err != nil || resp.GetDegraded() || resp.GetLegs()[2].GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY {
		t.Errorf("%v, %v", resp, err)
	}
}

func words(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("word%d", i)
	}
	return out
}

// rounded takes what the order of a sum decides from the raw scores of hop decay, which are compared after rounding, too.
func rounded(hits []*triskelev1.Hit) {
	for _, h := range hits {
		for _, c := range h.GetContributions() {
			if c.GetLeg() == "graph" {
				c.RawScore = math.Round(c.GetRawScore()*1e12) / 1e12
			}
		}
	}
}

func depths(r *triskelev1.RecallRequest, lexical, dense, graph int32) {
	r.Legs["lexical"].Depth, r.Legs["dense"].Depth, r.Legs["graph"].Depth = &lexical, &dense, &graph
}

func off(r *triskelev1.RecallRequest, legs ...string) {
	for _, leg := range legs {
		r.Legs[leg].Enabled = proto.Bool(false)
	}
}

// load imports memories and waits until every index has them.
func load(t *testing.T, memory triskelev1.MemoryServiceClient, memories []*triskelev1.Memory) {
	t.Helper()
	stream, err := memory.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&triskelev1.ImportRequest{Memories: memories}); err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.CloseAndRecv(); err != nil || resp.GetStored() != int64(len(memories)) {
		t.Fatalf("%v, %v", resp, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n, err := memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: memories[0].GetNamespace()})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the indexes have not caught up: %v, %v", n, err)
		}
		if n.GetIndexed() {
			return
		}
	}
}

func TestOneStatementNeedsPostgres(t *testing.T) {
	t.Parallel()
	config := standalone.Config{SQLite: t.TempDir() + "/test.db", OneStatement: true, Embedder: embed.NewHashed()}
	if _, err := startSystem(t, config); err == nil || !strings.Contains(err.Error(), "PostgreSQL") {
		t.Error(err)
	}
}
