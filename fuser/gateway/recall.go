package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/revision"
	"github.com/triskele/triskele/fuser/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Recall implements triskelev1.RecallServiceServer.
func (g *Gateway) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	start := time.Now()
	take := func() []*triskelev1.Span { return nil }
	if sc := trace.SpanContextFromContext(ctx); req.GetReturnSpans() && sc.IsSampled() {
		take = g.tel.Recorder.Watch(sc.TraceID())
	}
	// Names and attributes follow OpenTelemetry's conventions for generative AI memory operations.
	ctx, span := g.tel.Tracer.Start(ctx, "search_memory", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "search_memory"),
		attribute.Int("triskele.namespaces", len(req.GetNamespaces())),
	))
	resp, err := g.recall(ctx, start, req)
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
			attribute.Int("gen_ai.memory.search.result.count", len(resp.GetHits())),
			attribute.Bool("triskele.degraded", resp.GetDegraded()),
			attribute.String("triskele.fusion", resp.GetFusion().GetMethod().String()),
			attribute.Int64("triskele.budget_us", resp.GetBudget().AsDuration().Microseconds()),
		)
	}
	g.recalls.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", result)))
	span.End()
	spans := take()
	if err != nil {
		return nil, err
	}
	resp.Spans = append(resp.Spans, spans...)
	resp.TraceId = span.SpanContext().TraceID().String()
	resp.Spent = durationpb.New(time.Since(start))
	if resp.GetDegraded() {
		g.log.WarnContext(ctx, "degraded recall", "trace_id", resp.GetTraceId(), "reason", resp.GetDegradedReason())
	}
	return resp, nil
}

func (g *Gateway) recall(ctx context.Context, start time.Time, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	if err := g.checkLegs(req); err != nil {
		return nil, err
	}
	tokens, err := tokensOf(req)
	if err != nil {
		return nil, err
	}
	var left time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		if left = deadline.Sub(start); left <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	total := g.config.Budget.Total(left, req.GetBudget().AsDuration())
	forLegs, err := g.config.Budget.Search(total)
	if err != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "budget: %v is too little to search with", total)
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(total))
	defer cancel()

	outcomes := g.fanOut(ctx, req, g.plan(req, tokens, forLegs))
	if err := verdict(req, outcomes); err != nil {
		return nil, err
	}
	options := g.fusionOptions(req)
	fused := fusion.Fuse(lists(outcomes), options)
	if err := g.checkNamespaces(ctx, req.GetNamespaces(), outcomes); err != nil {
		return nil, err
	}
	resp := &triskelev1.RecallResponse{
		Legs:       reports(outcomes),
		Fusion:     &triskelev1.Fusion{Method: options.Method, Alpha: options.Alpha},
		ScoreScale: triskelev1.ScoreScale_SCORE_SCALE_CONVEX,
		Budget:     durationpb.New(total),
	}
	if options.Method == triskelev1.FusionMethod_FUSION_METHOD_RRF {
		resp.Fusion.K = &options.K
		resp.ScoreScale = triskelev1.ScoreScale_SCORE_SCALE_RRF
	}
	for _, o := range outcomes {
		resp.Spans = append(resp.Spans, o.spans...)
	}
	var contents map[string]fetched
	if !req.GetIdsOnly() {
		contents = g.contents(ctx, fused, wordsOf(req))
	}
	var lost []string
	for _, f := range fused {
		of, asked := contents[f.Namespace]
		memory := of.memories[f.ID]
		if asked && of.err == nil && memory == nil {
			continue // forgotten since the leg found it
		}
		h := hit(f, len(resp.Hits)+1, memory, req.GetExplain())
		h.Matches = of.matches[f.ID]
		resp.Hits = append(resp.Hits, h)
	}
	for _, namespace := range slices.Sorted(maps.Keys(contents)) {
		if contents[namespace].err != nil {
			lost = append(lost, "the contents of hits in "+namespace+" could not be fetched, so only their ids are given")
		}
	}
	resp.DegradedReason = degradation(outcomes, lost)
	resp.Degraded = resp.GetDegradedReason() != ""
	return resp, nil
}

// checkLegs refuses names of legs that are not configured, and a request that switches all of them off.
func (g *Gateway) checkLegs(req *triskelev1.RecallRequest) error {
	enabled := len(g.config.Legs)
	for name, options := range req.GetLegs() {
		if !g.hasLeg(name) {
			return rpc.Invalid(fmt.Sprintf("legs[%q]", name), "must be one of: "+g.legNames())
		}
		if options.Enabled != nil && !options.GetEnabled() {
			enabled--
		}
	}
	if enabled == 0 {
		return rpc.Invalid("legs", "must leave at least one leg enabled")
	}
	for i, name := range req.GetRequiredLegs() {
		if !g.hasLeg(name) {
			return rpc.Invalid(fmt.Sprintf("required_legs[%d]", i), "must be one of: "+g.legNames())
		}
	}
	return nil
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

func (g *Gateway) fusionOptions(req *triskelev1.RecallRequest) fusion.Options {
	options := fusion.Options{
		Method: req.GetFusion().GetMethod(), K: g.config.K, Sort: req.GetSortBy(), Limit: defaultLimit,
	}
	if options.Method == triskelev1.FusionMethod_FUSION_METHOD_UNSPECIFIED {
		options.Method = triskelev1.FusionMethod_FUSION_METHOD_RRF
	}
	if f := req.GetFusion(); f != nil {
		options.Alpha = f.Alpha
		if f.K != nil {
			options.K = f.GetK()
		}
	}
	if req.Limit != nil {
		options.Limit = int(req.GetLimit())
	}
	return options
}

// verdict returns an error if the outcomes do not amount to an answer.
func verdict(req *triskelev1.RecallRequest, outcomes []outcome) error {
	searched, missing := false, []string{}
	for _, o := range outcomes {
		if o.err != nil {
			return o.err // the same request would be refused again
		}
		searched = searched || o.answered()
		if o.lost() && !o.answered() {
			missing = append(missing, fmt.Sprintf("%s %s (%s)", o.name, stateName(o.state), o.reason))
		}
		if slices.Contains(req.GetRequiredLegs(), o.name) && !o.answered() && o.state != triskelev1.LegState_LEG_STATE_ABSTAINED {
			return status.Errorf(codes.Unavailable, "required leg %s did not answer: %s (%s)", o.name, stateName(o.state), o.reason)
		}
	}
	if !searched && len(missing) > 0 {
		return status.Errorf(codes.Unavailable, "no leg answered: %s", strings.Join(missing, "; "))
	}
	return nil
}

func lists(outcomes []outcome) []fusion.List {
	out := make([]fusion.List, 0, len(outcomes))
	for _, o := range outcomes {
		if len(o.hits) > 0 {
			out = append(out, fusion.List{Leg: o.name, Namespace: o.namespace, Weight: o.weight, Kind: o.kind, Hits: o.hits})
		}
	}
	return out
}

func reports(outcomes []outcome) []*triskelev1.LegReport {
	out := make([]*triskelev1.LegReport, len(outcomes))
	for i, o := range outcomes {
		out[i] = &triskelev1.LegReport{
			Leg: o.name, Namespace: o.namespace, State: o.state, Reason: o.reason, Returned: int32(len(o.hits)),
			Budget: durationpb.New(o.budget), Spent: durationpb.New(o.spent), Weight: o.weight, ScoreKind: o.kind,
			Behind: o.behind, Stale: o.stale,
		}
	}
	return out
}

// checkNamespaces refuses a namespace in which nothing was ever stored. Asking costs a call, so only those are asked about
// that gave no hit, all at once, and an unreachable memory service is no reason to fail.
func (g *Gateway) checkNamespaces(ctx context.Context, namespaces []string, outcomes []outcome) error {
	unknown := make([]bool, len(namespaces))
	var wg sync.WaitGroup
	for i, namespace := range namespaces {
		if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.namespace == namespace && len(o.hits) > 0 }) {
			continue
		}
		wg.Go(func() {
			_, err := g.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
			unknown[i] = status.Code(err) == codes.NotFound
		})
	}
	wg.Wait()
	if i := slices.Index(unknown, true); i >= 0 {
		return rpc.Invalid(fmt.Sprintf("namespaces[%d]", i), fmt.Sprintf("%q is unknown; storing a memory in it creates it", namespaces[i]))
	}
	return nil
}

// fetched is what came of fetching a namespace's winners: the memories by id, all that there are, or an error.
type fetched struct {
	memories map[string]*triskelev1.Memory
	matches  map[string]*triskelev1.Matches
	err      error
}

// wordsOf returns the text whose words are to be found in the winners, "" for none.
func wordsOf(req *triskelev1.RecallRequest) string {
	if !req.GetExplain() {
		return ""
	}
	return req.GetQuery()
}

// contents fetches the winners of each namespace, and finds the words of a query in them unless it is empty.
func (g *Gateway) contents(ctx context.Context, fused []fusion.Fused, query string) map[string]fetched {
	requests := map[string]*triskelev1.GetRequest{}
	for _, f := range fused {
		if requests[f.Namespace] == nil {
			requests[f.Namespace] = &triskelev1.GetRequest{Namespace: f.Namespace, Query: query}
		}
		requests[f.Namespace].Ids = append(requests[f.Namespace].Ids, f.ID)
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = make(map[string]fetched, len(requests))
	)
	for namespace, req := range requests {
		wg.Go(func() {
			resp, err := g.memory.Get(ctx, req)
			if err != nil {
				g.log.WarnContext(ctx, "contents not fetched", "namespace", namespace, "error", err.Error())
			}
			memories := make(map[string]*triskelev1.Memory, len(req.GetIds()))
			matches := make(map[string]*triskelev1.Matches, len(resp.GetMatches()))
			for i, m := range resp.GetMemories() {
				if memories[m.GetId()] = m; i < len(resp.GetMatches()) {
					matches[m.GetId()] = resp.GetMatches()[i]
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out[namespace] = fetched{memories, matches, err}
		})
	}
	wg.Wait()
	return out
}

func hit(f fusion.Fused, rank int, memory *triskelev1.Memory, explain bool) *triskelev1.Hit {
	h := &triskelev1.Hit{
		Id: f.ID, Namespace: f.Namespace, Rank: int32(rank), Score: f.Score, Importance: f.Importance,
		CreatedAt: timestamppb.New(f.CreatedAt), Memory: memory, Prior: f.Prior,
	}
	if explain {
		for _, c := range f.Contributions {
			h.Contributions = append(h.Contributions, &triskelev1.Contribution{
				Leg: c.Leg, Rank: int32(c.Rank), RawScore: c.Raw, ScoreKind: c.Kind, NormalizedScore: c.Normalized, Weight: c.Weight, Value: c.Value,
			})
		}
	}
	return h
}

// degradation is one sentence that a model can read, or "" if nothing is missing.
func degradation(outcomes []outcome, more []string) string {
	var parts []string
	for _, o := range outcomes {
		if o.stale {
			parts = append(parts, staleness(o))
		}
		if !o.lost() {
			continue
		}
		part := fmt.Sprintf("the %s leg %s (%s)", o.name, map[triskelev1.LegState]string{
			triskelev1.LegState_LEG_STATE_TIMED_OUT: "timed out",
			triskelev1.LegState_LEG_STATE_FAILED:    "failed",
			triskelev1.LegState_LEG_STATE_TRUNCATED: "was cut short",
			triskelev1.LegState_LEG_STATE_SKIPPED:   "was skipped",
		}[o.state], o.reason)
		if !slices.Contains(parts, part) { // the same in several namespaces
			parts = append(parts, part)
		}
	}
	if parts = append(parts, more...); len(parts) == 0 {
		return ""
	}
	return "This recall is incomplete: " + strings.Join(parts, "; ") + "."
}

// staleness says that a leg searched an index that did not know of the write it was to wait for.
func staleness(o outcome) string {
	sentence := fmt.Sprintf("the %s leg does not know of the latest writes to %s yet", o.name, o.namespace)
	if o.behind > 0 {
		sentence += fmt.Sprintf(" (%d behind)", o.behind)
	}
	return sentence
}

// stateName is a state as people read it: "TIMED_OUT".
func stateName(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }

// GetIndexStatus implements triskelev1.RecallServiceServer.
func (g *Gateway) GetIndexStatus(ctx context.Context, req *triskelev1.RecallServiceGetIndexStatusRequest) (*triskelev1.RecallServiceGetIndexStatusResponse, error) {
	resp := &triskelev1.RecallServiceGetIndexStatusResponse{Legs: make([]*triskelev1.LegIndexStatus, len(g.config.Legs))}
	ctx, cancel := context.WithTimeout(ctx, g.config.Budget.Max)
	defer cancel()
	var wg sync.WaitGroup
	for i, leg := range g.config.Legs {
		wg.Go(func() {
			out := &triskelev1.LegIndexStatus{Leg: leg.Name}
			st, err := g.legs[i].GetIndexStatus(ctx, &triskelev1.GetIndexStatusRequest{Namespace: req.GetNamespace()})
			if err != nil {
				_, out.Error, _ = failure(err, g.config.Budget.Max)
			}
			out.Status = st
			resp.Legs[i] = out
		})
	}
	wg.Wait()
	return resp, nil
}
