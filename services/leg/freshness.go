package leg

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// waitShare is the part of a search's budget that waiting for a write may take: what is left is as much again, and a
	// search that had to give up everything for freshness would answer nothing.
	waitShare = 0.5
	// firstPause and maxPause are how long a wait pauses between two looks; each pause is half as long again as the last.
	firstPause = time.Millisecond
	maxPause   = 20 * time.Millisecond

	// maxBehind is how far the memories an index is behind are counted, and behindAge how long a count is good for.
	maxBehind = 10_000
	behindAge = time.Second
	// behindTime bounds the counting, and behindGrace how long a search that has ended waits for it: then it says what was
	// counted last.
	behindTime  = time.Second
	behindGrace = 2 * time.Millisecond
	// maxFigures bounds the namespaces whose counts are kept: those that were searched last.
	maxFigures = 1024
)

// Freshness is implemented by a Searcher whose index follows the records by itself. The index of one that does not
// implement it is written with the records, and so always current.
type Freshness interface {
	// Knows says whether the index knows of a write to a namespace. gaveUp means that it never will by itself. A write
	// that was never made is a *record.FieldError.
	Knows(ctx context.Context, namespace string, sequence int64) (knows, gaveUp bool, err error)
	// Behind counts the memories of a namespace that the index has yet to catch up with, up to a limit.
	Behind(ctx context.Context, namespace string, limit int) (int64, error)
}

// Standby is implemented by a Searcher that may search in a standby of the database that its index is written to.
type Standby interface {
	// CatchUp returns a context for a Search that sees every write acknowledged before the call, as far as the standby has
	// caught up by a moment. caughtUp says whether it had, once the Search has ended.
	CatchUp(ctx context.Context, until time.Time) (searching context.Context, caughtUp func() bool)
	// StandbyLag says how far the standby is behind; ok is false if there is none.
	StandbyLag() (lag time.Duration, ok bool)
}

// await returns when the index knows of a write, or never will, or a moment has come, and says whether it does. The only
// error is a *record.FieldError; others are logged.
func await(ctx context.Context, index Freshness, namespace string, sequence int64, until time.Time, log *slog.Logger) (bool, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		knows, gaveUp, err := index.Knows(ctx, namespace, sequence)
		var field *record.FieldError
		switch {
		case errors.As(err, &field):
			return false, err
		case err != nil && ctx.Err() == nil:
			log.WarnContext(ctx, "cannot tell how fresh the index is", "error", err.Error())
			return false, nil
		case err != nil || knows || gaveUp:
			return knows, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(pause):
		}
	}
}

// gauge keeps count of how far an index is behind, for each namespace that is searched. Counting happens beside the
// searches, at most once a second for a namespace.
type gauge struct {
	index   Freshness
	mu      sync.Mutex
	figures *lru.Cache[string, *figure]
}

// figure is the last count of one namespace.
type figure struct {
	n        int64
	at       time.Time
	counting chan struct{} // closed when the count under way is done; nil if there is none
}

func newGauge(index Freshness) *gauge {
	figures, _ := lru.New[string, *figure](maxFigures) // fails for sizes below 1 only
	return &gauge{index: index, figures: figures}
}

// start begins to count unless there is a count that is young enough. read returns the count.
func (g *gauge) start(ctx context.Context, namespace string) (read func() int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, known := g.figures.Get(namespace)
	if !known {
		f = &figure{}
		g.figures.Add(namespace, f)
	}
	if f.counting == nil && (f.at.IsZero() || time.Since(f.at) >= behindAge) {
		f.counting = make(chan struct{})
		go g.count(context.WithoutCancel(ctx), namespace, f)
	}
	counting := f.counting
	return func() int64 {
		if counting != nil {
			select {
			case <-counting:
			case <-time.After(behindGrace):
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return f.n
	}
}

func (g *gauge) count(ctx context.Context, namespace string, f *figure) {
	ctx, cancel := context.WithTimeout(ctx, behindTime)
	defer cancel()
	var n int64
	err := panics.Catch(ctx, nil, "count what an index lacks", func() (err error) {
		n, err = g.index.Behind(ctx, namespace, maxBehind)
		return err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		f.n = n
	}
	f.at = time.Now() // also after a failure: a database in trouble is not asked at every search
	close(f.counting)
	f.counting = nil
}
