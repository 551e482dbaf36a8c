package gateway_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// dated is a memory service whose memories have dates, as "2006-01-02", and titles.
type dated struct {
	memories
	dates, titles map[string]string
}

func (d dated) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	resp, err := d.memories.Get(ctx, req, options...)
	for _, m := range resp.GetMemories() {
		m.CreatedAt, m.Title = timestamppb.New(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), d.titles[m.GetId()]
		if at, err := time.Parse(time.DateOnly, d.dates[m.GetId()]); err == nil {
			m.OccurredAt = timestamppb.New(at)
		}
	}
	return resp, err
}

func TestTimesInQuestions(t *testing.T) {
	memory := dated{
		dates:  map[string]string{"b": "2023-05-03", "c": "2023-06-01", "d": "2023-05-31", "e": "2023-05-10"},
		titles: map[string]string{"e": "Harbour > The release", "c": "After the release", "d": "Released"},
	}
	g := newGateway(t, memory, finds(bm25, "a", "b", "c", "d", "e"), finds(cosine), finds(hops))
	for name, x := range map[string]struct {
		query string
		edit  func(*triskelev1.RecallRequest)
		want  string // the order, with what matched
	}{
		"no time": {"what happened?", func(*triskelev1.RecallRequest) {}, "a b c d e"},
		"month":   {"what happened in May 2023?", func(*triskelev1.RecallRequest) {}, "b(May 2023) a d(May 2023) e(May 2023) c"},
		"created": {"what happened in January 2020?", func(*triskelev1.RecallRequest) {}, "a(January 2020) b c d e"},
		"bounded": {"what happened on 2023-05-10?", func(*triskelev1.RecallRequest) {}, "a e(2023-05-10) b c d"},
		"as of": {"what happened last month?", func(r *triskelev1.RecallRequest) {
			r.AsOf = timestamppb.New(time.Date(2023, 7, 9, 0, 0, 0, 0, time.UTC))
		}, "c(last month) a b d e"},
		"from below":    {"what happened on 31 May 2023?", func(r *triskelev1.RecallRequest) { r.Limit = new(int32(3)) }, "a d(31 May 2023) b"},
		"event":         {"what happened since the release?", func(*triskelev1.RecallRequest) {}, "c(since the release) a d(since the release) b e"},
		"unknown event": {"what happened since the wedding?", func(*triskelev1.RecallRequest) {}, "a b c d e"},
		"off":           {"what happened in May 2023?", func(r *triskelev1.RecallRequest) { r.TimePreference.Weight = 0 }, "a b c d e"},
		"by time":       {"what happened in May 2023?", func(r *triskelev1.RecallRequest) { r.SortBy = triskelev1.SortBy_SORT_BY_RECENCY }, "a b c d e"},
		"ids only":      {"what happened on 31 May 2023?", func(r *triskelev1.RecallRequest) { r.IdsOnly = true }, "a d(31 May 2023) b c e"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
				r.Query, r.Explain, r.TimePreference = x.query, true, &triskelev1.TimePreference{Weight: 1}
				r.Fusion = &triskelev1.Fusion{Method: rrf, K: new(2.)}
				x.edit(r)
			}))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, h := range resp.GetHits() {
				if i > 0 {
					got += " "
				}
				if got += h.GetId(); h.GetMatchedTime() != "" {
					got += "(" + h.GetMatchedTime() + ")"
				}
				sum := 0.
				for _, c := range h.GetContributions() {
					sum += c.GetValue()
				}
				if math.Abs(sum-h.GetScore()) > 1e-12 || int(h.GetRank()) != i+1 {
					t.Errorf("%s at rank %d: contributions add up to %v, want %v", h.GetId(), h.GetRank(), sum, h.GetScore())
				}
			}
			if got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}

// A reranker reads the question without its times: a text does not say when it was written.
func TestRerankersReadNoTimes(t *testing.T) {
	var read []string
	g := configured(t, judged(func(_ context.Context, query string, texts []string) ([]float64, error) {
		read = append(read, query)
		return make([]float64, len(texts)), nil
	}), dated{}, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	for _, weight := range []float64{1, 0} {
		if _, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Query, r.TimePreference, r.Rerank = "what happened last month?", &triskelev1.TimePreference{Weight: weight}, &triskelev1.Rerank{Enabled: new(true)}
		})); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"what happened ?", "what happened last month?"}; !slices.Equal(read, want) {
		t.Errorf("the reranker read %q, want %q", read, want)
	}
}

// A probability stays one, and its log-odds are still what its parts add up to.
func TestTimesRaiseOdds(t *testing.T) {
	memory := dated{dates: map[string]string{"b": "2023-05-03"}}
	g := newGateway(t, memory, finds(bm25, "a", "b"), finds(cosine), finds(hops))
	scores, priors := map[string]float64{}, map[string]float64{}
	for _, weight := range []float64{0, 3} {
		resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
			r.Query, r.Explain, r.TimePreference = "in May 2023", true, &triskelev1.TimePreference{Weight: weight}
			r.Fusion = &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED}
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range resp.GetHits() {
			odds := h.GetBaseLogOdds()
			for _, c := range h.GetContributions() {
				odds += c.GetValue()
			}
			if got := 1 / (1 + math.Exp(-odds)); math.Abs(got-h.GetScore()) > 1e-9 {
				t.Errorf("%s: parts give %v, want %v", h.GetId(), got, h.GetScore())
			}
			scores[fmt.Sprint(h.GetId(), weight)], priors[fmt.Sprint(h.GetId(), weight)] = h.GetScore(), h.GetPrior()
		}
	}
	odds := func(p float64) float64 { return p / (1 - p) }
	if got := odds(scores["b3"]) / odds(scores["b0"]); math.Abs(got-4) > 1e-9 || scores["a3"] != scores["a0"] {
		t.Errorf("got odds times %v, and %v for another memory after %v, want 4 and the same", got, scores["a3"], scores["a0"])
	}
	if priors["b3"] != 4*priors["b0"] || priors["a3"] != priors["a0"] {
		t.Errorf("got the priors %v, want 4 times as much for b", priors)
	}
}

// What a quota brings in stays in, whatever a time in the query puts first.
func TestTimeAndQuota(t *testing.T) {
	memory := dated{dates: map[string]string{"a": "2023-05-03"}}
	g := newGateway(t, memory, finds(bm25, "a", "b", "c"), finds(cosine, "a", "b", "c"), finds(hops, "x", "y"))
	resp, err := g.Recall(t.Context(), request(func(r *triskelev1.RecallRequest) {
		r.Query = "what happened in May 2023?"
		r.Limit, r.Legs = new(int32(3)), map[string]*triskelev1.LegOptions{"graph": {Quota: new(int32(2))}}
	}))
	if err != nil || order(resp) != "a x y" {
		t.Errorf("got %s, %v; want a x y", order(resp), err)
	}
}
