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
	// waitShare is the share of a search's budget that waiting for a write may take. The rest is left for the search.
	waitShare = 0.5
	// firstPause and maxPause bound the pauses between two checks of the index. Each pause is 1.5 times the one before.
	firstPause = time.Millisecond
	maxPause   = 20 * time.Millisecond

	// maxBehind bounds the count of memories that an index has yet to process. A count is used for behindAge, and a count of none for
	// as long as the copy in memory that is searched does not change.
	maxBehind = 10_000
	behindAge = time.Second
	// behindTime bounds the time of counting. A search that has ended waits behindGrace for it, and then returns the last
	// count.
	behindTime  = time.Second
	behindGrace = 2 * time.Millisecond
	// maxFigures bounds the number of namespaces whose counts are kept: those searched last.
	maxFigures = 1024
)

// AsyncIndex is implemented by a Searcher whose index is updated after the records' transaction. All other indexes are
// written in that transaction and are always current.
type AsyncIndex interface {
	// Knows reports whether the index has a write to a namespace. gaveUp means that it will not get the write by itself. For
	// a write that was never made, the error is a *record.FieldError.
	Knows(ctx context.Context, namespace string, sequence int64) (knows, gaveUp bool, err error)
	// Behind counts the memories of a namespace that the index has yet to process, up to a limit.
	Behind(ctx context.Context, namespace string, limit int) (int64, error)
}

// Standby is implemented by a Searcher that may read from a standby of the index's database.
type Standby interface {
	// CatchUp returns a context for a Search that sees every write acknowledged before the call. The standby may take until
	// the given time to receive them. After the Search, caughtUp reports whether it has.
	CatchUp(ctx context.Context, until time.Time) (searching context.Context, caughtUp func() bool)
	// StandbyLag returns the lag of the standby; ok is false if there is none.
	StandbyLag() (lag time.Duration, ok bool)
}

// await waits until the index has a write, but not longer than until. It returns early if the index has given up. It reports
// whether the index has the write. Its only error is a *record.FieldError; others are logged.
func await(ctx context.Context, index AsyncIndex, namespace string, sequence int64, until time.Time, log *slog.Logger) (bool, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		knows, gaveUp, err := index.Knows(ctx, namespace, sequence)
		_, unknown := errors.AsType[*record.FieldError](err)
		switch {
		case unknown:
			return false, err
		case err != nil && ctx.Err() == nil:
			log.WarnContext(ctx, "cannot tell whether the index has a write", "error", err.Error())
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

// gauge counts the memories that an index has yet to process, for each namespace that is searched. It counts in goroutines
// of its own, at most once a second for each namespace.
type gauge struct {
	index   AsyncIndex
	mu      sync.Mutex
	figures *lru.Cache[string, *figure]
}

// figure is the last count of one namespace.
type figure struct {
	n        int64
	version  int64 // of the copy in memory that had been searched before the count, as Result.Version
	searched int64 // the version that was searched last
	at       time.Time
	counting chan struct{} // closed at the end of the running count; nil if none runs
}

func newGauge(index AsyncIndex) *gauge {
	figures, _ := lru.New[string, *figure](maxFigures) // fails for sizes below 1 only
	return &gauge{index: index, figures: figures}
}

// start starts a count before a search, unless the last one found none and nothing was written since, as far as is known. After the
// search, read takes the version that was searched, and returns the latest count.
func (g *gauge) start(ctx context.Context, namespace string, written bool) (read func(version int64) int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, known := g.figures.Get(namespace)
	if !known {
		f = &figure{}
		g.figures.Add(namespace, f)
	}
	if written || f.n > 0 || f.version == 0 || f.version != f.searched {
		g.begin(ctx, namespace, f)
	}
	return func(version int64) int64 {
		g.mu.Lock()
		if f.searched != version {
			f.searched = version
			g.begin(ctx, namespace, f)
		}
		counting := f.counting
		g.mu.Unlock()
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

// begin begins a count, unless one runs or the last is recent.
func (g *gauge) begin(ctx context.Context, namespace string, f *figure) {
	if f.counting == nil && (f.at.IsZero() || time.Since(f.at) >= behindAge) {
		f.counting = make(chan struct{})
		go g.count(context.WithoutCancel(ctx), namespace, f.searched, f)
	}
}

func (g *gauge) count(ctx context.Context, namespace string, version int64, f *figure) {
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
		f.n, f.version = n, version
	}
	f.at = time.Now() // also after a failure, to spare a database in trouble
	close(f.counting)
	f.counting = nil
}
