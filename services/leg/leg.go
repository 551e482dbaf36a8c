// Package leg is the gRPC server that all legs share. A leg implements Searcher, and Server serves it as LegService. A search
// takes these steps:
//
//  1. The request is checked and decoded into a Query.
//  2. The budget is computed: the caller's deadline less a reserve for the answer's way back. A search that has less than
//     minBudget is refused.
//  3. If the query names a write (at_least) and the index is updated asynchronously (AsyncIndex), the server waits for the
//     write, for at most waitShare of the budget. A standby is waited for likewise (Standby).
//  4. The Searcher searches until the budget ends. Meanwhile, the memories that the index has yet to process are counted.
//  5. The result is encoded, and a span and the duration are recorded. Clients never see the cause of an internal error.
//
// The package knows no table and no particular leg.
package leg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

const (
	// maxBudget bounds a search whose caller set no deadline.
	maxBudget = 10 * time.Second
	// maxReserve bounds the part of the deadline that is reserved for the answer's way back. The reserve is a tenth of the
	// time left, if that is less.
	maxReserve = 2 * time.Millisecond
	// minBudget is the least budget of a search that is started.
	minBudget = time.Millisecond
)

// Query is one search. Text and Vector may each be empty.
type Query struct {
	Namespace    string
	Text         string
	Vector       []float32
	Filter       record.Filter
	Depth        int      // 1 to 1,000
	MinScore     *float64 // on the searcher's raw scale, of Hit.Own
	Borrow       float64  // what a memory borrows from its neighbours in its thread, in multiples of what they lend; 0 to 4
	ReturnVector bool
	Scorer       triskelev1.Scorer // for a searcher with several scorers
	MarkExact    bool              // fill Hit.Exact
	AtLeast      int64             // sequence number of the write to wait for; 0 if none
	Traversal    triskelev1.Traversal
	AsOf         time.Time // the time whose facts are searched; the zero time means now
	Explain      bool      // fill Result.Paths
	TextOf       uuid.UUID // the memory that Text was copied from; uuid.Nil if unknown or none
}

// Hit is a memory that was found, without its contents.
type Hit struct {
	ID         uuid.UUID
	Score      float64 // raw; higher is better
	Own        float64 // Score without what neighbours in the memory's thread lend
	Importance float64
	CreatedAt  time.Time
	Exact      bool // the title or content equals the query or a quoted phrase of it
	Concepts   int  // number of the query's entities that the memory mentions; only the graph leg sets it
	// Matched is the share of the query's weight, 0 to 1, in the words that the memory has; only the lexical leg sets it.
	Matched float64
}

// Step is a node of a path: a memory if Memory is not uuid.Nil, else a concept. Relation names the edge that leads to it.
type Step struct {
	Relation string    `json:"relation,omitempty"`
	Concept  string    `json:"concept,omitempty"`
	Memory   uuid.UUID `json:"memory,omitzero"`
}

// Result is the result of a search. Hits are the best first, at most Query.Depth, without duplicates, none below
// Query.MinScore of their own.
type Result struct {
	Hits      []Hit
	State     triskelev1.LegState // OK, FALLBACK, TRUNCATED or ABSTAINED; unspecified means OK
	Reason    string              // shown to the caller; never text of the query or of a memory
	ScoreKind triskelev1.ScoreKind
	Vector    []float32 // of the query, if Query.ReturnVector
	Coverage  float64   // share of the query that the searcher understood, 0 to 1; 0 if it cannot tell
	Paths     [][]Step  // from the query to each of Hits, if Query.Explain and the searcher has paths

	// Attainable is about the score of a memory of average length that has every word of the query once; 0 if unknown.
	Attainable float64
	Memories   int64 // of the namespace in the index; 0 if unknown
	Terms      int   // distinct words of the query without stop words; 0 if unknown

	replica.Freshness // of what was searched

	behind int64 // memories that the index had yet to process; Server counts them
}

// Abstained returns the result of a searcher that has nothing to search for.
func Abstained(kind triskelev1.ScoreKind, reason string) Result {
	return Result{State: triskelev1.LegState_LEG_STATE_ABSTAINED, Reason: reason, ScoreKind: kind}
}

// From says in a result which view it was made of.
func (r *Result) From(v *replica.View) {
	r.Freshness, r.Reason = v.Freshness, cmp.Or(r.Reason, v.Reason)
}

// NotInMemory reports whether an error says that a namespace has no view: it is not loaded yet, or too large.
func NotInMemory(err error) bool {
	return errors.Is(err, replica.ErrCold) || errors.Is(err, replica.ErrTooLarge)
}

// UnableError is a Searcher's error if a dependency fails, for instance an embedding server. Reason is shown to the caller.
// Cause is only logged.
type UnableError struct {
	Reason string // never text of the query or of a memory
	Cause  error
}

// Error implements error.
func (e *UnableError) Error() string { return e.Reason + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnableError) Unwrap() error { return e.Cause }

// Status is the state of the index of one namespace.
type Status struct {
	queue.Status
	Indexed  int64 // memories
	Excluded int64 // memories left out because they are sensitive
	Model    string
}

// SensitivityChecker is implemented by a Searcher that may send texts of queries to a server.
type SensitivityChecker interface {
	// Presentable reports whether a memory may be shown to models: it exists and is not sensitive.
	Presentable(ctx context.Context, namespace string, id uuid.UUID) (bool, error)
}

// Searcher is one way of searching. When ctx ends, Search must return the hits that it has (TRUNCATED) or ctx's error.
type Searcher interface {
	Search(ctx context.Context, q Query) (Result, error)
	Status(ctx context.Context, namespace string) (Status, error)
}

// Server serves a Searcher as LegService.
type Server struct {
	triskelev1.UnimplementedLegServiceServer
	searcher Searcher
	behind   *gauge             // nil for an index that is always current
	standby  Standby            // nil for a searcher that never reads from a standby
	checker  SensitivityChecker // nil for a searcher that sends no texts
	tel      *telemetry.Service
	duration metric.Float64Histogram
	log      *slog.Logger
}

// NewServer returns the server of a searcher, which may also implement AsyncIndex, Standby, SensitivityChecker and Scorer. tel
// names the leg in spans and metrics.
func NewServer(searcher Searcher, tel *telemetry.Service, log *slog.Logger) *Server {
	s := &Server{searcher: searcher, tel: tel, log: log}
	s.duration = telemetry.Must(tel.MeterProvider.Meter(telemetry.ScopeName).Float64Histogram("triskele.search.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5),
		metric.WithDescription("Time of a search as measured by the leg itself, by leg and state.")))
	if index, ok := searcher.(AsyncIndex); ok {
		s.behind = newGauge(index)
	}
	s.standby, _ = searcher.(Standby)
	s.checker, _ = searcher.(SensitivityChecker)
	return s
}

// withTextCheck returns a context for requests to servers. If the query's text is a memory's, each request first checks that
// the memory may be shown.
func (s *Server) withTextCheck(ctx context.Context, q Query) context.Context {
	if s.checker == nil || q.TextOf == uuid.Nil {
		return ctx
	}
	return endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) { return s.checker.Presentable(ctx, q.Namespace, q.TextOf) })
}

// Search implements triskelev1.LegServiceServer.
func (s *Server) Search(ctx context.Context, req *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	start := time.Now()
	query, err := fromProto(req)
	if err != nil {
		return nil, err
	}
	take := func() []*triskelev1.Span { return nil }
	if sc := trace.SpanContextFromContext(ctx); req.GetReturnSpans() && sc.IsSampled() {
		take = sync.OnceValue(s.tel.Recorder.Watch(sc.TraceID()))
		defer take() // also after a panic
	}
	result, err := s.search(ctx, start, query)
	spans := take()
	if err != nil {
		return nil, err
	}
	resp := &triskelev1.SearchResponse{
		Hits:       make([]*triskelev1.LegHit, len(result.Hits)),
		State:      result.State,
		Reason:     result.Reason,
		ScoreKind:  result.ScoreKind,
		Vector:     result.Vector,
		Coverage:   result.Coverage,
		Spans:      spans,
		Behind:     result.behind,
		Stale:      result.Stale,
		Away:       result.Away,
		Attainable: result.Attainable,
		Memories:   result.Memories,
		Terms:      int32(result.Terms),
		Spent:      durationpb.New(time.Since(start)),
	}
	if result.Age > 0 {
		resp.Age = durationpb.New(result.Age)
	}
	hits, times := make([]triskelev1.LegHit, len(result.Hits)), make([]timestamppb.Timestamp, len(result.Hits)) // two allocations instead of a hundred
	for i, hit := range result.Hits {
		out := &hits[i]
		out.Id, out.Rank, out.Score, out.OwnScore, out.Importance, out.CreatedAt = hit.ID.String(), int32(i+1), hit.Score, hit.Own, hit.Importance, &times[i]
		out.Concepts, out.Exact, out.Matched = int32(hit.Concepts), hit.Exact, hit.Matched
		times[i].Seconds, times[i].Nanos = hit.CreatedAt.Unix(), int32(hit.CreatedAt.Nanosecond())
		if i < len(result.Paths) {
			out.Path = pathToProto(result.Paths[i])
		}
		resp.Hits[i] = out
	}
	return resp, nil
}

func pathToProto(path []Step) []*triskelev1.PathStep {
	out := make([]*triskelev1.PathStep, len(path))
	for i, step := range path {
		out[i] = &triskelev1.PathStep{Relation: step.Relation, Concept: step.Concept}
		if step.Memory != uuid.Nil {
			out[i].Memory = step.Memory.String()
		}
	}
	return out
}

// search searches within the budget. It records a span and the duration.
func (s *Server) search(ctx context.Context, start time.Time, query Query) (Result, error) {
	budget := budgetOf(ctx, start)
	ctx, span := s.tel.Tracer.Start(ctx, s.tel.Name+".search", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("triskele.leg", s.tel.Name),
		attribute.Int("triskele.depth", query.Depth),
		attribute.Int64("triskele.budget_us", budget.Microseconds()),
		attribute.Bool("triskele.filtered", query.Filter.Narrow()),
	))
	state, reason := triskelev1.LegState_LEG_STATE_FAILED, ""
	defer func() { s.record(ctx, span, start, state, reason) }()
	if budget < minBudget {
		state, reason = triskelev1.LegState_LEG_STATE_TIMED_OUT, "no time left"
		return Result{}, status.Error(codes.DeadlineExceeded, "too little of the deadline was left to search")
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(budget))
	defer cancel()
	result, err := s.searchFresh(ctx, start, budget, query)
	if err != nil {
		state, reason, err = s.failure(ctx, err)
		return Result{}, err
	}
	result.State = cmp.Or(result.State, triskelev1.LegState_LEG_STATE_OK)
	state, reason = result.State, result.Reason
	span.SetAttributes(attribute.Int("triskele.hits", len(result.Hits)), attribute.Int64("triskele.behind", result.behind))
	return result, nil
}

// record ends the span of a search and records its duration.
func (s *Server) record(ctx context.Context, span trace.Span, start time.Time, state triskelev1.LegState, reason string) {
	spent, named := time.Since(start), strings.TrimPrefix(state.String(), "LEG_STATE_")
	s.duration.Record(ctx, spent.Seconds(), metric.WithAttributes(attribute.String("leg", s.tel.Name), attribute.String("state", named)))
	span.SetAttributes(
		attribute.String("triskele.state", named),
		attribute.String("triskele.reason", reason),
		attribute.Int64("triskele.spent_us", spent.Microseconds()),
	)
	if state == triskelev1.LegState_LEG_STATE_FAILED || state == triskelev1.LegState_LEG_STATE_TIMED_OUT {
		span.SetStatus(otelcodes.Error, reason)
	}
	span.End()
}

// searchFresh searches. If the query asks for a write, it first waits for it, for at most waitShare of the budget.
func (s *Server) searchFresh(ctx context.Context, start time.Time, budget time.Duration, query Query) (result Result, err error) {
	stale := false
	readBehind, caughtUp := func(int64) int64 { return 0 }, func() bool { return true }
	if s.behind != nil {
		readBehind = s.behind.start(ctx, query.Namespace, query.AtLeast > 0)
	}
	searching := s.withTextCheck(ctx, query)
	if query.AtLeast > 0 {
		span := trace.SpanFromContext(ctx)
		defer func() { span.SetAttributes(attribute.Bool("triskele.stale", stale)) }()
		until := start.Add(time.Duration(waitShare * float64(budget)))
		if s.behind != nil {
			knows, err := await(ctx, s.behind.index, query.Namespace, query.AtLeast, until, s.log)
			stale = !knows
			span.SetAttributes(attribute.Int64("triskele.waited_us", time.Since(start).Microseconds()))
			if err != nil {
				return result, err
			}
		}
		if s.standby != nil && !stale {
			searching, caughtUp = s.standby.CatchUp(searching, until)
		}
	}
	result, err = s.searcher.Search(searching, query)
	stale = stale || !caughtUp()
	result.Stale = result.Stale || stale
	if err == nil {
		result.behind = readBehind(result.Version)
	}
	return result, err
}

// failure returns the state and reason of a search that failed, for telemetry, and the client's error.
func (s *Server) failure(ctx context.Context, err error) (state triskelev1.LegState, reason string, public error) {
	if ctx.Err() != nil || postgres.IsTimeout(err) { // the server's timer may be first
		public = status.Error(codes.DeadlineExceeded, "the search did not finish within its budget")
		if errors.Is(ctx.Err(), context.Canceled) {
			return triskelev1.LegState_LEG_STATE_SKIPPED, "cancelled by the caller", public
		}
		return triskelev1.LegState_LEG_STATE_TIMED_OUT, "did not finish within its budget", public
	}
	reason = "search failed" // the cause may quote data, so only the log has it
	if unable, ok := errors.AsType[*UnableError](err); ok {
		reason = unable.Reason
	}
	return triskelev1.LegState_LEG_STATE_FAILED, reason, s.public(ctx, err)
}

// public returns the client's error for a searcher's error.
func (s *Server) public(ctx context.Context, err error) error {
	var unable *UnableError
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.As(err, &unable): // such as an embedding server's, whose connection may have failed, too
	case postgres.IsNodeAway(err):
		err = &UnableError{Reason: "the node of the database that has this namespace cannot be reached", Cause: err}
	case postgres.IsUnreachable(err):
		err = &UnableError{Reason: "the database cannot be reached", Cause: err}
	case errors.Is(err, replica.ErrUnanswered):
		err = &UnableError{Reason: replica.ErrUnanswered.Error(), Cause: err}
	}
	if errors.As(err, &unable) {
		s.log.WarnContext(ctx, "the leg cannot search", "reason", unable.Reason, "cause", unable.Cause.Error())
		return status.Error(codes.FailedPrecondition, unable.Reason)
	}
	if field := invalid(err); field != nil {
		return field
	}
	return fmt.Errorf("%s: %w", s.tel.Name, err)
}

// invalid returns the client's error for a *record.FieldError, and nil for any other error.
func invalid(err error) error {
	if field, ok := errors.AsType[*record.FieldError](err); ok {
		return rpc.Invalid(field.Field, field.MustBe)
	}
	return nil
}

// budgetOf returns the budget of a request that began at start: the time left until ctx's deadline, less the reserve.
func budgetOf(ctx context.Context, start time.Time) time.Duration {
	budget := maxBudget
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(start)
		budget = min(budget, left-min(left/10, maxReserve))
	}
	return budget
}

// GetIndexStatus implements triskelev1.LegServiceServer.
func (s *Server) GetIndexStatus(ctx context.Context, req *triskelev1.GetIndexStatusRequest) (*triskelev1.GetIndexStatusResponse, error) {
	st, err := s.searcher.Status(ctx, req.GetNamespace())
	if err != nil {
		return nil, s.public(ctx, err)
	}
	resp := &triskelev1.GetIndexStatusResponse{
		Indexed: st.Indexed, Pending: st.Pending, Dead: st.Dead, Lag: durationpb.New(st.Lag), Model: st.Model, Excluded: st.Excluded,
	}
	if s.standby != nil {
		if lag, ok := s.standby.StandbyLag(); ok {
			resp.StandbyLag = durationpb.New(lag)
		}
	}
	return resp, nil
}

func fromProto(req *triskelev1.SearchRequest) (Query, error) {
	query, err := question(req, req.Borrow)
	if err != nil {
		return Query{}, err
	}
	query.Depth, query.MinScore, query.MarkExact, query.ReturnVector = int(req.GetDepth()), req.MinScore, req.GetMarkExact(), req.GetReturnVector()
	query.Traversal, query.Explain = req.GetTraversal(), req.GetExplain()
	if req.AsOf != nil {
		query.AsOf = req.GetAsOf().AsTime()
		if !req.GetAsOf().IsValid() || query.AsOf.IsZero() { // which means now
			return Query{}, rpc.Invalid("as_of", "must lie after 0001-01-01 and before 10000-01-01")
		}
	}
	if req.GetAtLeast() != "" {
		token, err := revision.Parse(req.GetAtLeast())
		if err != nil || token.Namespace != query.Namespace {
			return Query{}, rpc.Invalid("at_least", "must be a revision token of the namespace")
		}
		query.AtLeast = token.Sequence
	}
	return query, nil
}

// question returns what searches and scores have in common. borrow is a multiple of what neighbours lend; 1 if it is not given.
func question(req interface {
	GetNamespace() string
	GetQuery() string
	GetVector() []float32
	GetScorer() triskelev1.Scorer
	GetFilter() *triskelev1.Filter
	GetTextOf() string
}, borrow *float64) (q Query, err error) {
	q = Query{Namespace: req.GetNamespace(), Text: req.GetQuery(), Vector: req.GetVector(), Scorer: req.GetScorer(), Borrow: 1}
	if borrow != nil {
		q.Borrow = *borrow
	}
	if q.Filter, err = record.FilterFromProto(req.GetFilter()); err != nil {
		return Query{}, cmp.Or(invalid(err), err)
	}
	if req.GetTextOf() != "" {
		if q.TextOf, err = uuid.Parse(req.GetTextOf()); err != nil {
			return Query{}, rpc.Invalid("text_of", "must be a UUID")
		}
	}
	return q, nil
}
