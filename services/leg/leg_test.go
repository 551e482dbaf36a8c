package leg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// searcher is a way of searching made of a function.
type searcher func(ctx context.Context, q leg.Query) (leg.Result, error)

func (s searcher) Search(ctx context.Context, q leg.Query) (leg.Result, error) { return s(ctx, q) }

func (s searcher) Status(context.Context, string) (leg.Status, error) {
	return leg.Status{Status: queue.Status{Pending: 2, Dead: 1, Lag: time.Second}, Indexed: 3, Model: "m"}, nil
}

func tel(t *testing.T) *telemetry.Service {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return process.Service("test")
}

func serve(t *testing.T, s searcher) *leg.Server {
	t.Helper()
	return leg.NewServer(s, tel(t), slog.New(slog.DiscardHandler))
}

func TestSearchTranslates(t *testing.T) {
	id, next := uuid.New(), uuid.New()
	minScore := .25
	s := serve(t, func(_ context.Context, q leg.Query) (leg.Result, error) {
		if q.Namespace != "n" || q.Text != "x" || len(q.Vector) != 2 || q.Depth != 7 || *q.MinScore != minScore || !q.ReturnVector ||
			q.Filter.TagsAny[0] != "a" {
			t.Errorf("query %+v", q)
		}
		return leg.Result{
			Hits:  []leg.Hit{{ID: id, Score: 2, Importance: .5, CreatedAt: time.Unix(7, 0)}, {ID: next, Score: 1}},
			State: triskelev1.LegState_LEG_STATE_FALLBACK, Reason: "r", ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25, Vector: []float32{1},
		}, nil
	})
	resp, err := s.Search(t.Context(), &triskelev1.SearchRequest{
		Namespace: "n", Query: "x", Vector: []float32{1, 2}, Depth: 7, MinScore: &minScore, ReturnVector: true,
		Filter: &triskelev1.Filter{TagsAny: []string{"a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := resp.GetHits()[0], resp.GetHits()[1]
	if first.GetId() != id.String() || first.GetRank() != 1 || first.GetScore() != 2 || first.GetImportance() != .5 || first.GetCreatedAt().GetSeconds() != 7 ||
		second.GetRank() != 2 || resp.GetState() != triskelev1.LegState_LEG_STATE_FALLBACK || resp.GetReason() != "r" ||
		resp.GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_BM25 || len(resp.GetVector()) != 1 {
		t.Errorf("response %v", resp)
	}
}

func TestSearchKeepsAReserveOfTheDeadline(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond:  9 * time.Millisecond,
		100 * time.Millisecond: 98 * time.Millisecond,
		time.Hour:              10 * time.Second,
		0:                      10 * time.Second, // no deadline
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := t.Context(), func() {}
			if left > 0 {
				ctx, cancel = context.WithTimeout(ctx, left)
			}
			defer cancel()
			s := serve(t, func(ctx context.Context, _ leg.Query) (leg.Result, error) {
				deadline, ok := ctx.Deadline()
				if got := time.Until(deadline); !ok || got != want {
					t.Errorf("with %v left the search got %v, want %v", left, got, want)
				}
				return leg.Result{}, nil
			})
			if _, err := s.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Depth: 1}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSearchRefusesWorkItHasNoTimeFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		s := serve(t, func(context.Context, leg.Query) (leg.Result, error) {
			t.Error("the search was started")
			return leg.Result{}, nil
		})
		if _, err := s.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Depth: 1}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
	})
}

func TestSearchErrors(t *testing.T) {
	for name, x := range map[string]struct {
		err  error
		want codes.Code
		says string
	}{
		"field":    {&record.FieldError{Field: "vector", MustBe: "must have 3 dimensions"}, codes.InvalidArgument, ""},
		"unable":   {&leg.UnableError{Reason: "no embedder", Cause: errors.New("hunter2")}, codes.FailedPrecondition, "no embedder"},
		"node":     {&pgconn.PgError{Code: "08006", Message: "hunter2"}, codes.FailedPrecondition, "the node of the database that has this namespace cannot be reached"},
		"database": {&net.OpError{Op: "dial", Err: errors.New("hunter2")}, codes.FailedPrecondition, "the database cannot be reached"},
		"filter":   {fmt.Errorf("hunter2: %w", replica.ErrUnanswered), codes.FailedPrecondition, "the database does not answer, and the metadata of the filter is not in memory"},
		"timeout":  {&pgconn.PgError{Code: "57014", Message: "hunter2"}, codes.DeadlineExceeded, ""}, // the server's timer was first
		"internal": {errors.New("hunter2"), codes.Unknown, ""},                                       // not a status: the server's guard hides it
	} {
		s := serve(t, func(context.Context, leg.Query) (leg.Result, error) { return leg.Result{}, x.err })
		_, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1})
		if status.Code(err) != x.want {
			t.Errorf("%s: %v", name, err)
		}
		if x.says != "" && status.Convert(err).Message() != x.says {
			t.Errorf("%s: the caller is told %v, want %q", name, err, x.says)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := serve(t, func(ctx context.Context, _ leg.Query) (leg.Result, error) {
			<-ctx.Done()
			return leg.Result{}, errors.New("hunter2: conn closed")
		})
		_, err := s.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Depth: 1})
		if status.Code(err) != codes.DeadlineExceeded || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("out of time: %v", err)
		}
	})
}

// A search that panics leaves no spans to one that comes later.
func TestSpansAfterAPanic(t *testing.T) {
	broken := true
	server := serve(t, func(context.Context, leg.Query) (leg.Result, error) {
		if broken {
			panic("oh")
		}
		return leg.Result{}, nil
	})
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
	req := &triskelev1.SearchRequest{Namespace: "n", Query: "x", Depth: 1, ReturnSpans: true}
	func() {
		defer func() { _ = recover() }()
		_, _ = server.Search(ctx, req)
	}()
	broken = false
	resp, err := server.Search(ctx, req)
	if err != nil || len(resp.GetSpans()) != 1 {
		t.Errorf("got %d spans and %v, want those of the search", len(resp.GetSpans()), err)
	}
}

func TestIndexStatus(t *testing.T) {
	st, err := serve(t, nil).GetIndexStatus(t.Context(), &triskelev1.GetIndexStatusRequest{Namespace: "n"})
	if err != nil || st.GetIndexed() != 3 || st.GetPending() != 2 || st.GetDead() != 1 || st.GetLag().AsDuration() != time.Second || st.GetModel() != "m" {
		t.Errorf("%v, %v", st, err)
	}
}

// scorer is a searcher that scores single memories too.
type scorer struct {
	searcher
	score func(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Hit, triskelev1.ScoreKind, error)
}

func (s scorer) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Hit, triskelev1.ScoreKind, error) {
	return s.score(ctx, q, ids)
}

func TestScoreByIds(t *testing.T) {
	known, unknown := uuid.New(), uuid.New()
	s := leg.NewServer(scorer{score: func(_ context.Context, q leg.Query, ids []uuid.UUID) ([]leg.Hit, triskelev1.ScoreKind, error) {
		if q.Namespace != "n" || q.Text != "x" || len(q.Vector) != 1 || len(ids) != 2 {
			t.Errorf("query %+v, ids %v", q, ids)
		}
		return []leg.Hit{{ID: known, Score: .5}}, triskelev1.ScoreKind_SCORE_KIND_COSINE, nil
	}}, tel(t), slog.New(slog.DiscardHandler))
	req := &triskelev1.ScoreByIdsRequest{Namespace: "n", Query: "x", Vector: []float32{1}, Ids: []string{known.String(), unknown.String()}}
	resp, err := s.ScoreByIds(t.Context(), req)
	if err != nil || len(resp.GetScores()) != 1 || resp.GetScores()[0].GetId() != known.String() || resp.GetScores()[0].GetScore() != .5 ||
		resp.GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_COSINE {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := serve(t, nil).ScoreByIds(t.Context(), req); status.Code(err) != codes.Unimplemented {
		t.Errorf("a leg that cannot: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	if _, err := s.ScoreByIds(ctx, req); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("no time left: %v", err)
	}
}

// discreet is a searcher that knows which memories may be shown.
type discreet struct {
	searcher
	hidden uuid.UUID
}

func (d discreet) Presentable(_ context.Context, namespace string, id uuid.UUID) (bool, error) {
	if namespace != "n" {
		return false, errors.New("asked about another namespace")
	}
	return id != d.hidden, nil
}

func (d discreet) Scores(ctx context.Context, q leg.Query, _ []uuid.UUID) ([]leg.Hit, triskelev1.ScoreKind, error) {
	_, err := d.Search(ctx, q)
	return nil, triskelev1.ScoreKind_SCORE_KIND_COSINE, err
}

// TestTextOfAMemory: a query that is the text of a memory is sent to a server only if the memory may be shown.
func TestTextOfAMemory(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	e, err := endpoint.New(server.URL, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	shown, hidden := uuid.New(), uuid.New()
	var sent error
	send := func(ctx context.Context, _ leg.Query) (leg.Result, error) {
		_, _, sent = e.Post(ctx, "", []byte("{}"), 100)
		return leg.Result{}, nil
	}
	for of, want := range map[string]error{"": nil, shown.String(): nil, hidden.String(): endpoint.ErrWithdrawn} {
		s := leg.NewServer(discreet{send, hidden}, tel(t), slog.New(slog.DiscardHandler))
		if _, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1, TextOf: of}); err != nil || !errors.Is(sent, want) {
			t.Errorf("search with the text of %q: %v, %v", of, sent, err)
		}
		if _, err := s.ScoreByIds(t.Context(), &triskelev1.ScoreByIdsRequest{Namespace: "n", TextOf: of}); err != nil || !errors.Is(sent, want) {
			t.Errorf("scores with the text of %q: %v, %v", of, sent, err)
		}
	}
	_, err = serve(t, send).Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1, TextOf: "x"})
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
