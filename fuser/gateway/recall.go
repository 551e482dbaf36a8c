package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// recall is one call: the request and what follows from it.
type recall struct {
	req      *triskelev1.RecallRequest
	start    time.Time
	settings []settings // of each namespace
	fusion   fusion.Options
	tokens   map[string]string // of at_least, by namespace
	plan     budget.Plan
	looked   time.Duration       // what looking for a remembered answer took
	pressure resilience.Pressure // when it began
	note     *recent.Recall      // to remember it by, nil if nobody wants to
}

// Recall implements triskelev1.RecallServiceServer.
func (g *Gateway) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	start := time.Now()
	take := func() []*triskelev1.Span { return nil }
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() && (req.GetReturnSpans() || g.config.Recent != nil) {
		take = g.tel.Recorder.Watch(sc.TraceID())
	}
	var note *recent.Recall
	if g.config.Recent != nil {
		note = &recent.Recall{Start: start}
	}
	// Names and attributes follow OpenTelemetry's conventions for generative AI memory operations.
	ctx, span := g.tel.Tracer.Start(ctx, "search_memory", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "search_memory"),
		attribute.String("gen_ai.provider.name", "triskele"),
		attribute.Int("triskele.namespaces", len(req.GetNamespaces())),
	))
	if g.config.Trace.Queries {
		span.SetAttributes(attribute.String("gen_ai.memory.query.text", req.GetQuery()))
	}
	resp, err := g.recall(ctx, start, req, note)
	result := "ok"
	switch {
	case err != nil:
		result = "failed"
		span.SetStatus(otelcodes.Error, status.Code(err).String())
	case resp.GetDegraded():
		result = "degraded"
		fallthrough
	default:
		span.SetAttributes(
			attribute.Int("gen_ai.memory.record.count", len(resp.GetHits())),
			attribute.Int("gen_ai.memory.search.result.count", len(resp.GetHits())), // its name in earlier conventions
			attribute.Bool("triskele.degraded", resp.GetDegraded()),
			attribute.String("triskele.fusion", resp.GetFusion().GetMethod().String()),
			attribute.Int64("triskele.budget_us", resp.GetBudget().AsDuration().Microseconds()),
			attribute.Int64("triskele.spent_us", time.Since(start).Microseconds()),
		)
		if resp.GetDegraded() {
			span.SetAttributes(attribute.String("triskele.reason", resp.GetDegradedReason()))
		}
	}
	outcome := metric.WithAttributes(attribute.String("outcome", result))
	g.recalls.Add(ctx, 1, outcome)
	g.recallTime.Record(ctx, time.Since(start).Seconds(), outcome)
	span.End()
	spans := take()
	g.keep(note, span.SpanContext().TraceID(), resp, err, spans)
	if err != nil {
		return nil, err
	}
	if req.GetReturnSpans() {
		resp.Spans = append(resp.Spans, spans...)
	}
	resp.TraceId = span.SpanContext().TraceID().String()
	resp.Spent = durationpb.New(time.Since(start))
	if resp.GetDegraded() {
		g.log.WarnContext(ctx, "degraded recall", "legs", legStates(resp.GetLegs()), "reason", resp.GetDegradedReason())
	}
	return resp, nil
}

// newRecall checks a request and plans the call.
func (g *Gateway) newRecall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest) (*recall, error) {
	r := &recall{req: req, start: start}
	var err error
	if r.settings, err = g.resolve(req); err != nil {
		return nil, err
	}
	if r.tokens, err = tokensOf(req); err != nil {
		return nil, err
	}
	var left time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		if left = deadline.Sub(start); left <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	total := g.config.Budget.Total(left, req.GetBudget().AsDuration())
	if r.plan, err = g.config.Budget.Plan(total, budget.Stages{Second: g.hasSecond(r.settings), Rerank: r.settings[0].reranks(req)}); err != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "budget: %v is too little to search with", total)
	}
	r.fusion = r.settings[0].fusion(req, g.config.Legs, start)
	return r, nil
}

// hasSecond says whether a recall has a second wave.
func (g *Gateway) hasSecond(all []settings) bool {
	return slices.ContainsFunc(all, func(s settings) bool {
		for i, leg := range s.legs {
			if g.config.Legs[i].Budget.Second && leg.off == "" {
				return true
			}
		}
		return false
	})
}

func (g *Gateway) recall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest, note *recent.Recall) (*triskelev1.RecallResponse, error) {
	r, err := g.newRecall(ctx, start, req)
	if err != nil {
		return nil, err
	}
	r.note = note
	ctx, cancel := context.WithDeadline(ctx, start.Add(r.plan.Total))
	defer cancel()
	resp, place := g.look(ctx, r)
	if resp != nil {
		return resp, nil
	}
	defer g.load.Begin()()
	r.pressure = g.load.Pressure()

	outcomes, result, err := g.search(ctx, r)
	g.searched(ctx, outcomes)
	r.noteLegs(outcomes)
	if err != nil {
		return nil, err
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		if share, compared := overlap(outcomes, r.fusion.Limit); compared {
			span.SetAttributes(attribute.Float64("triskele.overlap", share))
		}
	}
	minScoreIgnored := r.cut(&result, outcomes)
	if err := g.checkNamespaces(ctx, r, outcomes); err != nil {
		return nil, err
	}
	resp = &triskelev1.RecallResponse{
		Legs:       reports(outcomes, result.Scales),
		Fusion:     r.fusionUsed(),
		ScoreScale: scoreScale[r.fusion.Method],
		Budget:     durationpb.New(r.plan.Total),

		MinScoreIgnored: minScoreIgnored,
	}
	for _, o := range outcomes {
		resp.Spans = append(resp.Spans, o.spans...)
	}
	began := time.Now()
	winners, contents, lost := g.winners(ctx, r, result)
	r.noteStage("contents", began)
	resp.Contents = contents
	if r.settings[0].rerank.on {
		began = time.Now()
		resp.Rerank = g.rerank(ctx, r, winners)
		r.noteStage("rerank", began)
		if state := resp.GetRerank().GetState(); missed[state] != "" {
			lost = append(lost, fmt.Sprintf("the reranker %s (%s), so the order is the fused one", missed[state], resp.GetRerank().GetReason()))
		}
	}
	for i, w := range winners[:min(len(winners), r.fusion.Limit)] {
		resp.Hits = append(resp.Hits, r.hit(w, i+1, outcomes))
	}
	resp.DegradedReason = degradation(outcomes, lost)
	resp.Degraded = resp.GetDegradedReason() != ""
	g.remember(r, place, resp)
	return resp, nil
}

// search asks the legs and merges what they found.
func (g *Gateway) search(ctx context.Context, r *recall) ([]outcome, fusion.Result, error) {
	outcomes := g.fanOut(ctx, r)
	if err := verdict(outcomes); err != nil {
		return outcomes, fusion.Result{}, err
	}
	if r.settings[0].completing() {
		began := time.Now()
		g.complete(ctx, r, outcomes)
		r.noteStage("scores", began)
	}
	return outcomes, fusion.Fuse(lists(outcomes), r.fusion), nil
}

// cut leaves out hits below the request's least score, or says why it does not apply.
func (r *recall) cut(result *fusion.Result, outcomes []outcome) (ignored string) {
	least := r.req.GetMinScore()
	switch {
	case least == nil:
		return ""
	case least.GetScale() != scoreScale[r.fusion.Method]:
		return "the scores are on another scale"
	case slices.ContainsFunc(outcomes, outcome.lost):
		return "a leg is missing, without which scores are lower"
	}
	tooLow := func(f fusion.Fused) bool { return f.Score < least.GetValue() }
	result.Hits, result.Spare = slices.DeleteFunc(result.Hits, tooLow), slices.DeleteFunc(result.Spare, tooLow)
	return ""
}

// verdict returns an error if the outcomes do not amount to an answer.
func verdict(outcomes []outcome) error {
	searched, missing := false, []string{}
	for _, o := range outcomes {
		if o.err != nil {
			return o.err // the same request would be refused again
		}
		searched = searched || o.answered()
		if o.lost() && !o.answered() {
			missing = append(missing, fmt.Sprintf("%s %s (%s)", o.name, stateName(o.state), o.reason))
		}
		if why := o.fatal(); why != "" {
			return status.Errorf(codes.Unavailable, "%s %s did not answer: %s (%s)", why, o.name, stateName(o.state), o.reason)
		}
	}
	if !searched && len(missing) > 0 {
		return status.Errorf(codes.Unavailable, "no leg answered: %s", strings.Join(missing, "; "))
	}
	return nil
}

func lists(outcomes []outcome) []fusion.List {
	out := make([]fusion.List, len(outcomes))
	for i, o := range outcomes {
		out[i] = fusion.List{
			Leg: o.name, Namespace: o.namespace, Weight: o.weight, Trust: o.trust * o.coverage,
			Kind: o.kind, Hits: o.hits, Others: o.others, Complete: o.complete,
		}
	}
	return out
}

// tokensOf returns the revision tokens of a request by the namespaces they are of.
func tokensOf(req *triskelev1.RecallRequest) (map[string]string, error) {
	tokens := map[string]string{}
	for i, text := range req.GetAtLeast() {
		field := fmt.Sprintf("at_least[%d]", i)
		token, err := revision.Parse(text)
		if err != nil {
			return nil, rpc.Invalid(field, "must be a revision token, as the writing calls return it")
		}
		if !slices.Contains(req.GetNamespaces(), token.Namespace) {
			return nil, rpc.Invalid(field, "must be a revision token of one of the request's namespaces")
		}
		if tokens[token.Namespace] != "" {
			return nil, rpc.Invalid(field, fmt.Sprintf("must be the only revision token of namespace %q", token.Namespace))
		}
		tokens[token.Namespace] = text
	}
	return tokens, nil
}
