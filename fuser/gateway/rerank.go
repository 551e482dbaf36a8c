package gateway

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/timespan"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	rerankName = "reranker"
	// rerankShed is the order of reranking in load shedding: after the graph leg and before the dense one.
	rerankShed = 2
	maxRerank  = 100
)

// Reranker scores texts for a query, as a cross-encoder does.
type Reranker interface {
	// Rerank returns a score for each text, in their order, higher for a text that answers the query better. They may be
	// fewer: one for each of the first texts, as many as there was time for. It returns as soon as ctx ends, with its error
	// if there is no score. The texts of other errors are public. They wrap ErrRefused if the server found the request
	// itself invalid.
	Rerank(ctx context.Context, query string, texts []string) ([]float64, error)
}

// ErrRefused says nothing about the health of a dependency: the request was invalid.
var ErrRefused = errors.New("refused the request")

// RerankConfig is the reranking stage. The zero value is none.
type RerankConfig struct {
	Reranker Reranker
	Model    string     // for reports
	Local    bool       // it runs in this process, and so may read sensitive memories
	Answers  bool       // its scores are log-odds that a text answers: calibrated fusion takes them into its own
	Top      int        // how many of the best are reranked, 2 to 100; a policy or a request may change it
	Limit    int        // concurrent requests, 1 or more; others wait
	Budget   budget.Leg // of the time kept for it and the time that the legs leave
}

const (
	// answering is what a text that surely answers adds to a memory's log-odds, and half of it one that is as likely not to.
	answering = 2.0
	// A memory whose text surely answers, by a score of sure or more, is at least likely. The legs cannot know an answer in other words.
	// docs/adr/0067-sure-answers.md says how the two were chosen.
	sure, likely = 3.0, 0.1
	// If the first memory's score is below hopeless, and that of none that was read says that it may answer, then nothing answers
	// the query, and the log-odds of all fall by doubt. It takes enough readings, or all that can be. docs/adr/0065-built-in-reranker.md says how the three were chosen.
	hopeless, doubt, enough = -8.0, 2.0, 3
)

// rerank sorts the best of the winners by the reranker's scores. Sensitive memories are not sent to another process: they keep
// their places. If the reranker fails, all do.
func (g *Gateway) rerank(ctx context.Context, r *recall, winners []winner) *triskelev1.RerankReport {
	report := &triskelev1.RerankReport{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Model: g.config.Rerank.Model}
	var places []int // in winners
	var texts []string
	shown := map[string][]string{} // ids by namespace
	for i, w := range winners[:min(len(winners), r.settings[0].rerank.top)] {
		switch {
		case w.memory.GetSensitive() && !g.config.Rerank.Local:
			report.Withheld++
		case w.memory != nil:
			places, texts = append(places, i), append(texts, text(w.memory))
			shown[w.Namespace] = append(shown[w.Namespace], w.ID)
		}
	}
	switch {
	case r.req.GetSortBy() == triskelev1.SortBy_SORT_BY_RECENCY:
		report.Reason = "the order is by time"
	case r.req.GetQuery() == "":
		report.Reason = "the query has no text"
	case r.req.GetTextOf() != "":
		report.Reason = "the query is the text of a memory"
	case len(texts) < 2 && !(len(texts) == 1 && g.weighs(r)):
		report.Reason = "there are fewer than two memories that it may put in order"
	default:
		if !g.config.Rerank.Local {
			ctx = g.whilePresentable(ctx, shown)
		}
		scores := g.askReranker(ctx, r, texts, report)
		places = places[:len(scores)]
		for i, place := range places {
			winners[place].reranked = &scores[i]
		}
		if g.weighs(r) {
			weigh(winners)
		} else {
			moved := slice.Map(places, func(place int) winner { return winners[place] })
			// Equal scores keep their order.
			slices.SortStableFunc(moved, func(a, b winner) int { return cmp.Compare(*b.reranked, *a.reranked) })
			for i, place := range places {
				winners[place] = moved[i]
			}
		}
		report.Reranked = int32(len(scores))
	}
	return report
}

// whilePresentable has requests with the texts of memories sent only if all still exist and none has turned sensitive.
func (g *Gateway) whilePresentable(ctx context.Context, shown map[string][]string) context.Context {
	return endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) {
		for namespace, ids := range shown {
			resp, err := g.memory.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: ids})
			if err != nil || len(resp.GetMemories()) < len(ids) || slices.ContainsFunc(resp.GetMemories(), (*triskelev1.Memory).GetSensitive) {
				return false, err
			}
		}
		return true, nil
	})
}

// weighs says whether what the reranker reads changes scores.
func (g *Gateway) weighs(r *recall) bool {
	return g.config.Rerank.Answers && r.fusion.Method == calibrated
}

// weigh adds what the reranker read to the winners' log-odds, and sorts them by these.
func weigh(winners []winner) {
	for i := range winners {
		if w := &winners[i]; w.reranked != nil {
			added := gain(*w.reranked, w.Score)
			w.Contributions = append(slices.Clip(w.Contributions), fusion.Contribution{Leg: rerankName, Raw: *w.reranked, Value: added})
			addLogOdds(&w.Fused, added)
		}
	}
	slices.SortStableFunc(winners, func(a, b winner) int { return cmp.Compare(b.Score, a.Score) })
	read, hope := 0, false
	for i, w := range winners {
		if w.reranked != nil {
			read++
			hope = hope || *w.reranked >= 0 || i == 0 && *w.reranked >= hopeless
		}
	}
	if hope || read < min(enough, len(winners)) {
		return
	}
	for i := range winners {
		winners[i].Base -= doubt
		addLogOdds(&winners[i].Fused, -doubt)
	}
}

// gain is what a score adds to the log-odds of a memory of a probability.
func gain(score, p float64) float64 {
	added := answering * fusion.Probability(score)
	if score >= sure {
		added = max(added, logOdds(likely)-logOdds(p))
	}
	return added
}

// canReach returns the least probability that reading can raise to p, if nothing is known of the text.
func canReach(p float64) float64 {
	if p <= likely {
		return 0
	}
	return changed(p, -answering)
}

// logOdds returns those of a probability, at least those of one in 10¹².
func logOdds(p float64) float64 {
	p = max(p, 1e-12)
	return math.Log(p / (1 - p))
}

func addLogOdds(f *fusion.Fused, change float64) { f.Score = changed(f.Score, change) }

func changed(p, logOdds float64) float64 {
	factor := math.Exp(logOdds)
	return p * factor / (1 - p + p*factor)
}

// askReranker returns the scores of texts, nil if there are none, and reports how the call ended. A failure, a panic included,
// costs the reranking only.
func (g *Gateway) askReranker(ctx context.Context, r *recall, texts []string, report *triskelev1.RerankReport) (scores []float64) {
	start := time.Now()
	ctx, span := g.tel.Tracer.Start(ctx, "rerank", trace.WithAttributes(attribute.Int("triskele.texts", len(texts))))
	end := func(state triskelev1.LegState, reason string) { report.State, report.Reason = state, reason }
	defer func() {
		spent := time.Since(start)
		report.Spent = durationpb.New(spent)
		state := attribute.String("state", stateName(report.GetState()))
		g.rerankTime.Record(ctx, spent.Seconds(), metric.WithAttributes(state))
		span.SetAttributes(
			attribute.String("triskele.state", state.Value.AsString()),
			attribute.Int64("triskele.budget_us", report.GetBudget().AsDuration().Microseconds()),
			attribute.Int64("triskele.spent_us", spent.Microseconds()),
		)
		if missed[report.GetState()] != "" {
			span.SetStatus(otelcodes.Error, report.GetReason())
		}
		span.End()
	}()
	given, tooLittle := g.config.Rerank.Budget.Allot(r.plan.Rerank-time.Since(r.start), r.settings[0].rerank.deadline)
	report.Budget = durationpb.New(given)
	if tooLittle != "" {
		end(triskelev1.LegState_LEG_STATE_SKIPPED, tooLittle)
		return nil
	}
	if r.pressure.Sheds(rerankShed) {
		end(triskelev1.LegState_LEG_STATE_SKIPPED, overload(r.pressure))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, given)
	defer cancel()
	scores, err := timedCall(ctx, g.reranker, func(ctx context.Context) ([]float64, error) {
		// Texts don't say when they were written, so one of last week would seem to be no answer to what was last week.
		return g.config.Rerank.Reranker.Rerank(ctx, timespan.Without(r.req.GetQuery(), r.times.spans), texts)
	})
	var notCalled *notCalledError
	switch {
	case errors.As(err, &notCalled):
		end(triskelev1.LegState_LEG_STATE_SKIPPED, notCalled.reason)
	case err == nil:
		end(triskelev1.LegState_LEG_STATE_OK, "")
	case errors.Is(err, context.DeadlineExceeded):
		end(triskelev1.LegState_LEG_STATE_TIMED_OUT, noAnswer(given))
	default:
		end(triskelev1.LegState_LEG_STATE_FAILED, err.Error())
	}
	return scores
}
