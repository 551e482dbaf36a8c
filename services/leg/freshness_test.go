package leg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/revision"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

const ms = time.Millisecond

// follower is a searcher whose index follows the records.
type follower struct {
	searcher
	knows  func() (knows, gaveUp bool, err error)
	behind func(ctx context.Context) (int64, error)
}

func (f follower) Knows(_ context.Context, namespace string, sequence int64) (knows, gaveUp bool, err error) {
	if namespace != "n" || sequence != 7 {
		return false, false, errors.New("asked for something else")
	}
	return f.knows()
}

func (f follower) Behind(ctx context.Context, namespace string, limit int) (int64, error) {
	if namespace != "n" || limit != 10_000 {
		return 0, errors.New("asked for something else")
	}
	return f.behind(ctx)
}

func none(context.Context) (int64, error) { return 0, nil }

var token = revision.Token{Namespace: "n", Sequence: 7}.String()

func TestAtLeast(t *testing.T) {
	for name, x := range map[string]struct {
		knows func(begun time.Time) (knows, gaveUp bool, err error)
		stale bool
		// The search must begin when this much of the budget of 90 ms has passed.
		least, most time.Duration
	}{
		"known":           {func(time.Time) (bool, bool, error) { return true, false, nil }, false, 0, 0},
		"known in 20 ms":  {func(begun time.Time) (bool, bool, error) { return time.Since(begun) >= 20*ms, false, nil }, false, 20 * ms, 30 * ms},
		"never known":     {func(time.Time) (bool, bool, error) { return false, false, nil }, true, 45 * ms, 45 * ms},
		"given up":        {func(time.Time) (bool, bool, error) { return false, true, nil }, true, 0, 0},
		"cannot be asked": {func(time.Time) (bool, bool, error) { return false, false, errors.New("down") }, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 92*ms)
				defer cancel()
				s := serveFollower(t, follower{
					searcher: func(ctx context.Context, q leg.Query) (leg.Result, error) {
						if waited := time.Since(begun); waited < x.least || waited > x.most {
							t.Errorf("the search began after %v", waited)
						}
						return leg.Result{}, ctx.Err()
					},
					knows:  func() (bool, bool, error) { return x.knows(begun) },
					behind: none,
				})
				resp, err := s.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Depth: 1, AtLeast: token})
				if err != nil || resp.GetStale() != x.stale {
					t.Errorf("stale %v, %v", resp.GetStale(), err)
				}
			})
		})
	}
}

// TestTokenOfNoWrite: the index says that there is no such write, and nothing is searched.
func TestTokenOfNoWrite(t *testing.T) {
	s := serveFollower(t, follower{
		searcher: func(context.Context, leg.Query) (leg.Result, error) {
			t.Error("searched")
			return leg.Result{}, nil
		},
		knows: func() (bool, bool, error) {
			return false, false, fmt.Errorf("queue: %w", &record.FieldError{Field: "at_least", MustBe: "must be known"})
		},
		behind: none,
	})
	_, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1, AtLeast: token})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "at_least: must be known") {
		t.Error(err)
	}
}

func TestIndexWrittenWithTheRecordsIsNeverStale(t *testing.T) {
	s := serve(t, func(context.Context, leg.Query) (leg.Result, error) { return leg.Result{}, nil })
	resp, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1, AtLeast: token})
	if err != nil || resp.GetStale() || resp.GetBehind() != 0 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestBadTokens(t *testing.T) {
	s := serve(t, func(context.Context, leg.Query) (leg.Result, error) { return leg.Result{}, nil })
	for _, text := range []string{"x", "1:7", revision.Token{Namespace: "other", Sequence: 7}.String()} {
		if _, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1, AtLeast: text}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestBehindIsCountedBeside: counting holds no search up, happens once a second at most, and goes on after a failure.
func TestBehindIsCountedBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts atomic.Int64
		var slow atomic.Bool
		s := serveFollower(t, follower{
			searcher: func(context.Context, leg.Query) (leg.Result, error) { return leg.Result{}, nil },
			behind: func(ctx context.Context) (int64, error) {
				n := counts.Add(1)
				if n == 3 {
					return 0, errors.New("down")
				}
				if slow.Load() {
					select {
					case <-time.After(500 * ms):
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}
				return 10 * n, nil
			},
		})
		behind := func(when string, want int64) {
			t.Helper()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			resp, err := s.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Depth: 1})
			if err != nil || resp.GetBehind() != want {
				t.Errorf("%s: behind by %d, %v", when, resp.GetBehind(), err)
			}
			if took := time.Since(begun); took > 2*ms {
				t.Errorf("%s: counting held the search up for %v", when, took)
			}
		}
		behind("the first time", 10)
		behind("at once again", 10)
		slow.Store(true)
		time.Sleep(time.Second)
		behind("while it is counted", 10)
		time.Sleep(600 * ms) // the searcher has left, the count goes on
		behind("when it has been counted", 20)
		time.Sleep(time.Second)
		behind("after a count that failed", 20)
		time.Sleep(time.Second)
		slow.Store(false)
		behind("when counting works again", 40)
		if counts.Load() != 4 {
			t.Errorf("counted %d times", counts.Load())
		}
	})
}

// TestNothingBehind: a count of none holds until the copy that is searched changes. Any other is repeated.
func TestNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version, behind, counts := int64(1), int64(0), 0
		s := serveFollower(t, follower{
			searcher: func(context.Context, leg.Query) (leg.Result, error) {
				return leg.Result{Freshness: replica.Freshness{Version: version}}, nil
			},
			behind: func(context.Context) (int64, error) {
				counts++
				return behind, nil
			},
		})
		for _, x := range []struct {
			when            string
			version, behind int64
			counts          int // so far
		}{
			{"first", 1, 0, 1},
			{"the version was not known before", 1, 0, 2},
			{"nothing changed", 1, 0, 2},
			{"a memory is written", 2, 3, 3},
			{"it is not indexed yet", 2, 3, 4},
			{"it is indexed", 3, 0, 5},
			{"nothing known of version 3", 3, 0, 6},
			{"nothing changes any more", 3, 0, 6},
			{"the copy has left memory", 0, 0, 7},
			{"and is still not there", 0, 0, 8},
		} {
			time.Sleep(2 * time.Second)
			version, behind = x.version, x.behind
			resp, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1})
			if err != nil || resp.GetBehind() != x.behind || counts != x.counts {
				t.Errorf("%s: behind by %d after %d counts, want %d after %d; %v", x.when, resp.GetBehind(), counts, x.behind, x.counts, err)
			}
		}
	})
}

// TestPanicWhileCounting costs the count, not the search, nor the process.
func TestPanicWhileCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := serveFollower(t, follower{
			searcher: func(context.Context, leg.Query) (leg.Result, error) { return leg.Result{}, nil },
			behind:   func(context.Context) (int64, error) { asked.Add(1); panic("oh") },
		})
		resp, err := s.Search(t.Context(), &triskelev1.SearchRequest{Namespace: "n", Depth: 1})
		if err != nil || resp.GetBehind() != 0 {
			t.Errorf("got %v, %v, want an answer that is behind by 0", resp, err)
		}
		synctest.Wait()
		if got := asked.Load(); got != 1 {
			t.Errorf("counted %d times, want once", got)
		}
	})
}

func serveFollower(t *testing.T, s follower) *leg.Server {
	t.Helper()
	return leg.NewServer(s, tel(t), slog.New(slog.DiscardHandler))
}
