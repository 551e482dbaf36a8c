package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/resilience"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// recall is one call: the request and what follows from it.
type recall struct {
	req      *triskelev1.RecallRequest
	start    time.Time
	settings []settings // of each namespace
	fusion   fusion.Options
	least    float64 // min_score, if it applies to the scores after reranking
	times    times
	tokens   map[string]string // of at_least, by namespace
	plan     budget.Plan
	pressure resilience.Pressure // at the start of the searches
	note     *recent.Recall      // for the list of recent recalls; nil if there is none
}

// Recall implements triskelev1.RecallServiceServer.
func (g *Gateway) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	start := time.Now()
	take := func() []*triskelev1.Span { return nil }
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() && (req.GetReturnSpans() || g.config.Recent != nil) {
		take = sync.OnceValue(g.tel.Recorder.Watch(sc.TraceID()))
		defer take() // also after a panic
	}
	var note *recent.Recall
	if g.config.Recent != nil {
		note = &recent.Recall{Start: start}
	}
	ctx, span := g.startRecall(ctx, start, req)
	resp, err := g.recall(ctx, start, req, note)
	g.endRecall(ctx, span, start, resp, err)
	spans, id := take(), span.SpanContext().TraceID().String()
	g.noteRecall(ctx, note, id, resp, err, spans)
	if err != nil {
		return nil, err
	}
	if req.GetReturnSpans() {
		resp.Spans = append(resp.Spans, spans...)
	}
	resp.TraceId = id
	resp.Spent = durationpb.New(time.Since(start))
	if resp.GetDegraded() {
		legs := slice.Map(resp.GetLegs(), func(l *triskelev1.LegReport) string { return l.GetLeg() + " " + stateName(l.GetState()) })
		g.log.WarnContext(ctx, "degraded recall", "legs", strings.Join(legs, ", "), "reason", resp.GetDegradedReason())
	}
	return resp, nil
}

func (g *Gateway) newRecall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest) (*recall, error) {
	r := &recall{req: req, start: start}
	if len(req.GetVector()) == 0 && rpc.Blank(req.GetQuery()) {
		return nil, rpc.Invalid("query", "must have more than white space")
	}
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
	reranks := r.settings[0].reranks(req)
	if r.plan, err = g.config.Budget.Plan(total, reranks); err == nil && reranks && r.settings[0].rerank.wish && r.plan.Rerank-r.plan.Legs < g.config.Rerank.Budget.Min {
		r.plan, err = g.config.Budget.Plan(total, false) // what is too little for the reranker is for the legs
	}
	if err != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "budget: %v is too little to search with", total)
	}
	r.fusion = r.settings[0].fusion(req, g.config.Legs, start)
	if r.times = timesOf(req, r.settings[0], start); r.times.any() {
		r.fusion.Reserve = max(r.fusion.Reserve, maxTimed-r.fusion.Limit)
	}
	return r, nil
}

func (g *Gateway) recall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest, note *recent.Recall) (*triskelev1.RecallResponse, error) {
	r, err := g.newRecall(ctx, start, req)
	if err != nil {
		return nil, err
	}
	r.note = note
	ctx, cancel := context.WithDeadline(ctx, start.Add(r.plan.Total))
	defer cancel()
	defer g.load.Begin()()
	r.pressure = g.load.Pressure()

	outcomes := g.fanOut(ctx, r)
	err = checkAnswered(outcomes)
	if err == nil && r.settings[0].completing() {
		began := time.Now()
		g.complete(ctx, r, outcomes)
		r.noteStage("scores", began)
	}
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
	minScoreIgnored := r.setMinScore(outcomes)
	if r.settings[0].reranks(r.req) && g.weighs(r) {
		r.least = r.fusion.Least // reranking changes the scores
		r.fusion.Least = canReach(r.least)
	}
	result := fusion.Fuse(lists(outcomes), r.fusion)
	leftOut := dropBelow(&result, r.fusion.Least)
	if err := g.checkNamespaces(ctx, r, outcomes); err != nil {
		return nil, err
	}
	resp, low := g.respond(ctx, r, outcomes, result)
	resp.MinScoreIgnored, resp.NothingRelevant = minScoreIgnored, len(resp.GetHits()) == 0 && len(leftOut)+len(low) > 0
	n := int(r.req.GetReturnLeftOut())
	if more := min(n-len(low), len(leftOut)); more > 0 {
		low = append(low, g.leftOut(ctx, r, leftOut[:more], len(resp.GetHits())+len(low))...)
	}
	for i, w := range low[:min(n, len(low))] {
		resp.LeftOut = append(resp.LeftOut, r.hit(w, len(resp.GetHits())+i+1, outcomes))
	}
	return resp, nil
}

// respond fetches and reranks the best memories, orders superseded ones, and writes the response. It also returns those that
// scored below min_score when they were reranked.
func (g *Gateway) respond(ctx context.Context, r *recall, outcomes []outcome, result fusion.Result) (resp *triskelev1.RecallResponse, low []winner) {
	resp = &triskelev1.RecallResponse{
		Legs:       reports(outcomes, r.fusion.Method, result.Scales),
		Fusion:     r.fusionUsed(),
		ScoreScale: scoreScale[r.fusion.Method],
		Budget:     durationpb.New(r.plan.Total),
	}
	for _, o := range outcomes {
		resp.Spans = append(resp.Spans, o.answer.GetSpans()...)
	}
	began := time.Now()
	winners, contents, lost := g.winners(ctx, r, result)
	r.noteStage("contents", began)
	resp.Contents = contents
	r.prefer(winners)
	if r.settings[0].rerank.on {
		began = time.Now()
		resp.Rerank = g.rerank(ctx, r, winners)
		r.noteStage("rerank", began)
		if state := resp.GetRerank().GetState(); missed[state] != "" && !r.settings[0].rerank.wish {
			lost = append(lost, fmt.Sprintf("the reranker %s (%s), so the order is the fused one", missed[state], resp.GetRerank().GetReason()))
		}
	}
	winners = winners[:min(len(winners), r.fusion.Limit)]
	if r.least > 0 {
		high := slices.IndexFunc(winners, func(w winner) bool { return w.Score < r.least })
		if high >= 0 {
			winners, low = winners[:high], winners[high:]
		}
	}
	if r.req.GetFilter().GetIncludeSuperseded() && r.req.GetSortBy() != triskelev1.SortBy_SORT_BY_RECENCY {
		winners = belowSuccessors(winners)
	}
	for i, w := range winners {
		resp.Hits = append(resp.Hits, r.hit(w, i+1, outcomes))
	}
	if r.req.GetSurroundings() > 0 && !r.req.GetIdsOnly() {
		began = time.Now()
		lost = append(lost, g.surround(ctx, r, resp.GetHits())...)
		r.noteStage("surroundings", began)
	}
	resp.DegradedReason = degradation(outcomes, lost)
	resp.Degraded = resp.GetDegradedReason() != ""
	return resp, low
}

// setMinScore has the fusion regard min_score, or says why that does not apply. A probability means the same when a leg is missing.
func (r *recall) setMinScore(outcomes []outcome) (ignored string) {
	least := r.settings[0].least
	switch {
	case least == nil:
	case least.GetScale() != scoreScale[r.fusion.Method]:
		return "the scores are on another scale"
	case r.fusion.Method != calibrated && slices.ContainsFunc(outcomes, func(o outcome) bool { return o.lost() }):
		return "a leg is missing, without which scores are lower"
	default:
		r.fusion.Least = least.GetValue()
	}
	return ""
}

func dropBelow(result *fusion.Result, least float64) (leftOut []fusion.Fused) {
	keep := func(hits []fusion.Fused) []fusion.Fused {
		return slices.DeleteFunc(hits, func(f fusion.Fused) bool {
			low := f.Score < least
			if low {
				leftOut = append(leftOut, f)
			}
			return low
		})
	}
	result.Hits, result.Reserve = keep(result.Hits), keep(result.Reserve)
	return leftOut
}

// leftOut fetches the contents of what min_score left out. Their ranks go on from those of the hits.
func (g *Gateway) leftOut(ctx context.Context, r *recall, hits []fusion.Fused, before int) []winner {
	apart := *r
	apart.fusion.Limit, apart.times = len(hits), times{}
	apart.settings = slices.Clone(r.settings)
	apart.settings[0].rerank.on, apart.settings[0].similarity = false, 0
	winners, _, _ := g.winners(ctx, &apart, fusion.Result{Hits: hits})
	for i := range winners {
		winners[i].rank += before
	}
	return winners
}

// checkAnswered returns an error if no leg answered, if a leg without which the recall has to fail did not, or if a leg
// refused the request.
func checkAnswered(outcomes []outcome) error {
	searched, missing := false, []string{}
	for _, o := range outcomes {
		if o.refusal != nil {
			return o.refusal // the caller has to change the request
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
	return slice.Map(outcomes, func(o outcome) fusion.List {
		return fusion.List{
			Leg: o.name, Namespace: o.namespace, Weight: o.weight, Trust: o.trust * o.answer.GetCoverage(),
			Kind: o.answer.GetScoreKind(), Hits: o.hits, Others: o.others, Complete: o.complete, Answered: o.answered(),
			Coverage: o.answer.GetCoverage(), Attainable: o.answer.GetAttainable(), Memories: o.answer.GetMemories(), Terms: int(o.answer.GetTerms()),
		}
	})
}

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
