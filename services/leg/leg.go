// Package leg serves LegService for any way of searching: it checks and decodes the request, keeps a reserve of the
// caller's deadline to answer in, records the span, and encodes the result. It knows no database and no other leg.
package leg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
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
	"github.com/triskele/triskele/services/store/record"
)

const (
	// maxBudget bounds a search whose caller set no deadline.
	maxBudget = 10 * time.Second
	// maxReserve is what the answer's way back gets of the deadline at most; a tenth of it if that is less.
	maxReserve = 2 * time.Millisecond
	// minBudget is the least time a search is started with.
	minBudget = time.Millisecond
)

// Query is one search. Text and Vector may each be empty.
type Query struct {
	Namespace    string
	Text         string
	Vector       []float32
	VectorModel  string // whose space Vector is in, if known
	Seeds        []Seed
	Filter       record.Filter
	Depth        int      // 1 to 1,000
	MinScore     *float64 // on the searcher's raw scale
	ReturnVector bool
	Scorer       triskelev1.Scorer // for a searcher that has several
	MarkExact    bool              // fill Hit.Exact
	AtLeast      int64             // the write to wait for before searching; 0 if none
	Traversal    triskelev1.Traversal
	AsOf         time.Time // what held then; the zero time is now
	Explain      bool      // fill Result.Paths
	TextOf       uuid.UUID // the memory whose text Text is; uuid.Nil if it is none's, or that does not matter
}

// Seed is a memory that another leg found.
type Seed struct {
	ID    uuid.UUID
	Score float64
}

// Hit is a memory found, without its contents.
type Hit struct {
	ID         uuid.UUID
	Score      float64 // raw; higher is better
	Importance float64
	CreatedAt  time.Time
	Exact      bool // the query, or a quoted phrase in it, is the title or content
	Concepts   int  // entities of the query that the memory mentions itself, where the searcher knows entities
}

// Step is a stop of a path: a concept, or a memory if Memory is not uuid.Nil. Relation is how it is reached.
type Step struct {
	Relation string    `json:"relation,omitempty"`
	Concept  string    `json:"concept,omitempty"`
	Memory   uuid.UUID `json:"memory,omitzero"`
}

// Result is what a searcher found, best first: at most Query.Depth hits, none twice, none below Query.MinScore.
type Result struct {
	Hits      []Hit
	State     triskelev1.LegState // OK, FALLBACK, TRUNCATED or ABSTAINED; unspecified means OK
	Reason    string              // shown to the caller; never text of the query or of a memory
	ScoreKind triskelev1.ScoreKind
	Vector    []float32 // of the query, if Query.ReturnVector
	Model     string    // whose space Vector is in
	Coverage  float64   // how much of the query was understood, 0 to 1; 0 if the searcher cannot tell
	Paths     [][]Step  // from the query to each of Hits, if Query.Explain and the searcher has paths
}

// UnableError is a Searcher's error when something that it needs fails, an embedding server for instance. Reason is shown
// to the caller, Cause only logged.
type UnableError struct {
	Reason string // never text of the query or of a memory
	Cause  error
}

// Error names both.
func (e *UnableError) Error() string { return e.Reason + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *UnableError) Unwrap() error { return e.Cause }

// Status says how far an index is behind the records of a namespace.
type Status struct {
	Indexed, Pending, Dead int64
	Excluded               int64 // memories kept out because they are sensitive
	Lag                    time.Duration
	Model                  string
}

// Discretion is implemented by a Searcher that may send texts of queries to a server.
type Discretion interface {
	// Presentable says whether a memory may be shown to models: it is there, and not sensitive.
	Presentable(ctx context.Context, namespace string, id uuid.UUID) (bool, error)
}

// Searcher is one way of searching. Search must return when ctx ends, with what it has (TRUNCATED) or with ctx's error.
type Searcher interface {
	Search(ctx context.Context, q Query) (Result, error)
	Status(ctx context.Context, namespace string) (Status, error)
}

// Server serves a Searcher as LegService.
type Server struct {
	triskelev1.UnimplementedLegServiceServer
	searcher Searcher
	behind   *gauge  // nil for an index that is always current
	standby  Standby // nil for a searcher that never reads from one
	discreet Discretion
	tel      *telemetry.Service
	took     metric.Float64Histogram
	log      *slog.Logger
}

// NewServer returns a server for one way of searching; its spans carry the telemetry's service name. If the searcher is
// a Freshness too, its index can be waited for.
func NewServer(searcher Searcher, tel *telemetry.Service, log *slog.Logger) *Server {
	s := &Server{searcher: searcher, tel: tel, log: log}
	var err error
	if s.took, err = tel.MeterProvider.Meter(telemetry.ScopeName).Float64Histogram("triskele.search.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5),
		metric.WithDescription("Time of a search as the leg itself saw it, by leg and state.")); err != nil {
		otel.Handle(err)
	}
	if index, ok := searcher.(Freshness); ok {
		s.behind = newGauge(index)
	}
	s.standby, _ = searcher.(Standby)
	s.discreet, _ = searcher.(Discretion)
	return s
}

// guard returns a context in which the text of a memory is sent to servers only as long as that may be.
func (s *Server) guard(ctx context.Context, q Query) context.Context {
	if s.discreet == nil || q.TextOf == uuid.Nil {
		return ctx
	}
	return endpoint.Guard(ctx, func(ctx context.Context) (bool, error) { return s.discreet.Presentable(ctx, q.Namespace, q.TextOf) })
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
		take = s.tel.Recorder.Watch(sc.TraceID())
	}
	result, fresh, err := s.search(ctx, start, query)
	spans := take()
	if err != nil {
		return nil, err
	}
	resp := &triskelev1.SearchResponse{
		Hits:        make([]*triskelev1.LegHit, len(result.Hits)),
		State:       result.State,
		Reason:      result.Reason,
		ScoreKind:   result.ScoreKind,
		Vector:      result.Vector,
		VectorModel: result.Model,
		Coverage:    result.Coverage,
		Spans:       spans,
		Behind:      fresh.behind,
		Stale:       fresh.stale,
		Spent:       durationpb.New(time.Since(start)),
	}
	for i, hit := range result.Hits {
		resp.Hits[i] = &triskelev1.LegHit{
			Id: hit.ID.String(), Rank: int32(i + 1), Score: hit.Score, Importance: hit.Importance, CreatedAt: timestamppb.New(hit.CreatedAt),
			Concepts: int32(hit.Concepts), Exact: hit.Exact,
		}
		if i < len(result.Paths) {
			resp.Hits[i].Path = pathToProto(result.Paths[i])
		}
	}
	return resp, nil
}

// pathToProto returns a path as the contract has it.
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

// freshness is how far the index was behind the records when it was searched.
type freshness struct {
	behind int64 // memories
	stale  bool  // it did not know of the write asked for
}

// search waits for the index if it is to, and runs the searcher, within the budget and under a span.
func (s *Server) search(ctx context.Context, start time.Time, query Query) (Result, freshness, error) {
	budget := budgetOf(ctx, start)
	ctx, span := s.tel.Tracer.Start(ctx, s.tel.Name+".search", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.String("triskele.leg", s.tel.Name),
		attribute.Int("triskele.depth", query.Depth),
		attribute.Int64("triskele.budget_us", budget.Microseconds()),
		attribute.Bool("triskele.filtered", query.Filter.Narrow()),
	))
	state, reason := triskelev1.LegState_LEG_STATE_FAILED, ""
	defer func() {
		spent, named := time.Since(start), strings.TrimPrefix(state.String(), "LEG_STATE_")
		s.took.Record(ctx, spent.Seconds(), metric.WithAttributes(attribute.String("leg", s.tel.Name), attribute.String("state", named)))
		span.SetAttributes(
			attribute.String("triskele.state", named),
			attribute.String("triskele.reason", reason),
			attribute.Int64("triskele.spent_us", spent.Microseconds()),
		)
		if state == triskelev1.LegState_LEG_STATE_FAILED || state == triskelev1.LegState_LEG_STATE_TIMED_OUT {
			span.SetStatus(otelcodes.Error, reason)
		}
		span.End()
	}()
	if budget < minBudget {
		state, reason = triskelev1.LegState_LEG_STATE_TIMED_OUT, "no time left"
		return Result{}, freshness{}, status.Error(codes.DeadlineExceeded, "too little of the deadline was left to search")
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(budget))
	defer cancel()
	var fresh freshness
	var result Result
	var err error
	readBehind, caughtUp := func() int64 { return 0 }, func() bool { return true }
	if s.behind != nil {
		readBehind = s.behind.start(ctx, query.Namespace)
	}
	searching := s.guard(ctx, query)
	if query.AtLeast > 0 {
		until := start.Add(time.Duration(waitShare * float64(budget)))
		if s.behind != nil {
			var knows bool
			knows, err = await(ctx, s.behind.index, query.Namespace, query.AtLeast, until, s.log)
			fresh.stale = !knows
			span.SetAttributes(attribute.Int64("triskele.waited_us", time.Since(start).Microseconds()))
		}
		if s.standby != nil && !fresh.stale {
			searching, caughtUp = s.standby.CatchUp(searching, until)
		}
		defer func() { span.SetAttributes(attribute.Bool("triskele.stale", fresh.stale)) }()
	}
	if err == nil {
		result, err = s.searcher.Search(searching, query)
	}
	fresh.stale = fresh.stale || !caughtUp()
	if result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED {
		result.State = triskelev1.LegState_LEG_STATE_OK
	}
	if err != nil {
		reason = "search failed" // the cause may quote data; it belongs in the log
		if ctx.Err() != nil {
			state, reason = triskelev1.LegState_LEG_STATE_TIMED_OUT, "did not finish within its budget"
			if errors.Is(ctx.Err(), context.Canceled) {
				state, reason = triskelev1.LegState_LEG_STATE_SKIPPED, "called off by the caller"
			}
			return Result{}, freshness{}, status.Error(codes.DeadlineExceeded, "the search did not finish within its budget")
		}
		var unable *UnableError
		if errors.As(err, &unable) {
			reason = unable.Reason
		}
		return Result{}, freshness{}, s.public(ctx, err)
	}
	fresh.behind = readBehind()
	state, reason = result.State, result.Reason
	span.SetAttributes(attribute.Int("triskele.hits", len(result.Hits)), attribute.Int64("triskele.behind", fresh.behind))
	return result, fresh, nil
}

// public is what a caller gets of a searcher's error.
func (s *Server) public(ctx context.Context, err error) error {
	var field *record.FieldError
	if errors.As(err, &field) {
		return rpc.Invalid(field.Field, field.MustBe)
	}
	var unable *UnableError
	if errors.As(err, &unable) {
		s.log.WarnContext(ctx, "cannot search", "reason", unable.Reason, "cause", unable.Cause.Error())
		return status.Error(codes.FailedPrecondition, unable.Reason)
	}
	return fmt.Errorf("%s: %w", s.tel.Name, err)
}

// budgetOf is what work that began at start may take: what is left of ctx's deadline without the reserve.
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
		return nil, err
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
	filter, err := record.FilterFromProto(req.GetFilter())
	if err != nil {
		var field *record.FieldError
		if errors.As(err, &field) {
			return Query{}, rpc.Invalid(field.Field, field.MustBe)
		}
		return Query{}, err
	}
	query := Query{
		Namespace:    req.GetNamespace(),
		Text:         req.GetQuery(),
		Vector:       req.GetVector(),
		VectorModel:  req.GetVectorModel(),
		Filter:       filter,
		Depth:        int(req.GetDepth()),
		MinScore:     req.MinScore,
		ReturnVector: req.GetReturnVector(),
		Scorer:       req.GetScorer(),
		MarkExact:    req.GetMarkExact(),
		Traversal:    req.GetTraversal(),
		Explain:      req.GetExplain(),
	}
	if query.TextOf, err = textOf(req); err != nil {
		return Query{}, err
	}
	if req.AsOf != nil {
		if err := req.GetAsOf().CheckValid(); err != nil {
			return Query{}, rpc.Invalid("as_of", "must be a time from the year 1 to 9999")
		}
		query.AsOf = req.GetAsOf().AsTime()
	}
	if req.GetAtLeast() != "" {
		token, err := revision.Parse(req.GetAtLeast())
		if err != nil || token.Namespace != query.Namespace {
			return Query{}, rpc.Invalid("at_least", "must be a revision token of the namespace")
		}
		query.AtLeast = token.Sequence
	}
	for i, seed := range req.GetSeeds() {
		id, err := uuid.Parse(seed.GetId())
		if err != nil {
			return Query{}, rpc.Invalid(fmt.Sprintf("seeds[%d].id", i), "must be a UUID")
		}
		query.Seeds = append(query.Seeds, Seed{id, seed.GetScore()})
	}
	return query, nil
}

// textOf returns the memory whose text a query is.
func textOf(req interface{ GetTextOf() string }) (uuid.UUID, error) {
	if req.GetTextOf() == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(req.GetTextOf())
	if err != nil {
		return uuid.Nil, rpc.Invalid("text_of", "must be a UUID")
	}
	return id, nil
}
