package standalone_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// recallGraph stores memories, waits for the indexes, and returns what recalls.
func recallGraph(t *testing.T, config standalone.Config, memories ...*triskelev1.Memory) func(edit func(*triskelev1.RecallRequest)) *triskelev1.RecallResponse {
	t.Helper()
	embedder, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	recalls, store := start(t, config, embedder)
	var token string
	for _, m := range memories {
		m.Namespace = "n"
		resp, err := store.Remember(t.Context(), &triskelev1.RememberRequest{Memory: m})
		if err != nil {
			t.Fatal(err)
		}
		token = resp.GetRevisionToken()
	}
	return func(edit func(*triskelev1.RecallRequest)) *triskelev1.RecallResponse {
		t.Helper()
		req := &triskelev1.RecallRequest{Namespaces: []string{"n"}, AtLeast: []string{token}, Budget: durationpb.New(20 * time.Second), Explain: true}
		edit(req)
		resp, err := recalls.Recall(t.Context(), req)
		if err != nil || resp.GetDegraded() {
			t.Fatalf("%v, %v", resp, err)
		}
		return resp
	}
}

// byGraph returns the titles and texts of what the graph leg found, with the ways there.
func byGraph(resp *triskelev1.RecallResponse) map[string][]*triskelev1.PathStep {
	out := map[string][]*triskelev1.PathStep{}
	for _, h := range resp.GetHits() {
		for _, c := range h.GetContributions() {
			if c.GetLeg() == "graph" {
				out[h.GetMemory().GetTitle()+h.GetMemory().GetContent()] = c.GetPath()
			}
		}
	}
	return out
}

// TestAsOf: the graph leg finds what held at a time that the caller names, though it has been superseded since.
func TestAsOf(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, store := start(t, config, embed.NewHashed())
		const was, is = "Kittiwake lies in Brackwater.", "Kittiwake lies in Kessel."
		now := time.Now()
		old, err := store.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{
			Namespace: "n", Content: was, Tags: []string{"Kittiwake"}, OccurredAt: timestamppb.New(now.AddDate(0, -2, 0)),
		}})
		if err != nil {
			t.Fatal(err)
		}
		current, err := store.Supersede(t.Context(), &triskelev1.SupersedeRequest{
			Id: old.GetMemory().GetId(), Replacement: &triskelev1.Memory{Namespace: "n", Content: is, Tags: []string{"Kittiwake"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for when, want := range map[*timestamppb.Timestamp]string{nil: is, timestamppb.New(now.AddDate(0, -1, 0)): was, timestamppb.New(now.AddDate(0, -3, 0)): ""} {
			for _, traversal := range []triskelev1.Traversal{triskelev1.Traversal_TRAVERSAL_HOP_DECAY, triskelev1.Traversal_TRAVERSAL_PAGERANK} {
				resp, err := recalls.Recall(t.Context(), &triskelev1.RecallRequest{
					Namespaces: []string{"n"}, Query: "Kittiwake", AsOf: when, AtLeast: []string{current.GetRevisionToken()}, Explain: true,
					Budget: durationpb.New(20 * time.Second), Legs: map[string]*triskelev1.LegOptions{"graph": {Traversal: traversal}},
				})
				if err != nil || resp.GetDegraded() {
					t.Fatalf("%v, %v", resp, err)
				}
				var found []string
				for text := range byGraph(resp) {
					found = append(found, text)
				}
				if strings.Join(found, " ") != want {
					t.Errorf("as of %v, %s: found %q, want %q", when.AsTime(), traversal, found, want)
				}
			}
		}
	})
}

// TestEntityBoostWantsAnEntity is a failure that was published about a boost whose terms were words in title case: "What Is
// The Plan For Q3" promoted a note that had the string Q3 in it, when there was no such entity.
func TestEntityBoostWantsAnEntity(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		literal := &triskelev1.Memory{Content: "Q3 and then Q3: the minutes of Q3 are in the drawer."}
		plan := &triskelev1.Memory{Title: "Third quarter", Content: "The plan is to ship the harbour gate."}
		recall := recallGraph(t, config, literal, plan)
		ask := func(boost float64) *triskelev1.RecallResponse {
			return recall(func(r *triskelev1.RecallRequest) {
				r.Query, r.EntityBoost = "What Is The Plan For Q3", &triskelev1.EntityBoost{Weight: boost}
			})
		}
		off, on := ask(0), ask(2)
		for i, h := range on.GetHits() {
			if h.GetEntityBoost() != 1 || h.GetEntityMatches() != 0 || h.GetScore() != off.GetHits()[i].GetScore() {
				t.Errorf("boosted although there is no entity: %v", h)
			}
		}
	})
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recall := recallGraph(t, config, &triskelev1.Memory{Title: "Q3", Content: "The plan is to ship the harbour gate."},
			&triskelev1.Memory{Content: "In Q3 we plan and plan and plan."}, &triskelev1.Memory{Content: "What is the plan for the party? The plan is cake."})
		resp := recall(func(r *triskelev1.RecallRequest) {
			r.Query, r.EntityBoost = "What Is The Plan For Q3", &triskelev1.EntityBoost{Weight: 2}
			r.Fusion = &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_RRF} // the others' values do not add up to the score
		})
		for _, h := range resp.GetHits() {
			want := 3.
			if strings.Contains(h.GetMemory().GetContent(), "party") {
				want = 1
			}
			sum := 0.
			for _, c := range h.GetContributions() {
				sum += c.GetValue()
			}
			if h.GetEntityBoost() != want || sum != h.GetScore() {
				t.Errorf("%s is boosted by %v, not %v; contributions %v of %v", h.GetMemory().GetContent(), h.GetEntityBoost(), want, sum, h.GetScore())
			}
		}
	})
}
