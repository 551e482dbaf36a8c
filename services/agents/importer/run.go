package importer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// batchSize and batchBytes bound what one call stores.
	batchSize  = 200
	batchBytes = 1 << 20
	// inFlight is how many batches may wait for the one whose position is to be kept next.
	inFlight = 2
)

// Options say how to import. The zero value stores everything that can be stored and keeps no position.
type Options struct {
	DryRun  bool          // count and report as if storing, but store nothing
	Strict  bool          // stop at the first position that cannot be imported
	Timeout time.Duration // of one call; 0 is none
	Journal *Journal      // where to keep the position; may be nil
	// Progress is told how far the import is; may be nil.
	Progress func(done int64, report *Report)
	// Tell is told what happens beside the import, for people; may be nil.
	Tell func(string)
}

// StrictError ends a strict import. What comes before the position is stored.
type StrictError struct{ Problem Problem }

func (e *StrictError) Error() string { return e.Problem.Position + ": " + e.Problem.Detail }

// Why an import that broke off starts over.
var (
	errChanged = errors.New("the source has changed") // it no longer begins with what was imported
	errGone    = errors.New("the database has changed")
)

// Run imports a source. If the journal knows of an earlier run that broke off, and the source still begins with what that
// one stored, it goes on from there. The report is of both runs; it is valid together with an error, too.
func Run(ctx context.Context, memories triskelev1.MemoryServiceClient, source Source, options Options) (*Report, error) {
	if options.Progress == nil {
		options.Progress = func(int64, *Report) {}
	}
	if options.Tell == nil {
		options.Tell = func(string) {}
	}
	r := &run{Options: options, store: store{memories, options.DryRun, options.Strict, options.Timeout}, source: source, report: newReport()}
	r.report.DryRun = options.DryRun
	err := r.run(ctx)
	if errors.Is(err, errChanged) || errors.Is(err, errGone) {
		options.Tell(err.Error() + " since the import that broke off; starting over, which stores nothing twice")
		if err := options.Journal.Reset(); err != nil {
			return r.report, err
		}
		r.report = newReport()
		err = r.run(ctx)
	}
	if err == nil && options.Journal != nil {
		err = options.Journal.finish()
	}
	return r.report, err
}

type run struct {
	Options
	store  store
	source Source
	report *Report
}

// run is one pass over the source. Batches are stored beside each other, and acknowledged in the source's order.
func (r *run) run(ctx context.Context) error {
	var from Position
	if r.Journal != nil {
		position, report, err := r.Journal.load()
		if err != nil {
			return err
		}
		for namespace, since := range report.Namespaces {
			now, err := r.store.since(ctx, namespace)
			if err != nil {
				return err
			}
			if !now.Equal(since) {
				return errGone
			}
		}
		if from = position; from.Items > 0 {
			r.report = report
			r.Tell(fmt.Sprintf("going on after %d positions that are done", from.Items))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending := make(chan *batch, inFlight)
	var readErr error
	go func() {
		defer close(pending)
		readErr = r.read(ctx, from, func(b *batch) bool {
			go func() {
				defer close(b.settled)
				b.err = r.store.put(ctx, b)
			}()
			if r.Strict {
				<-b.settled // nothing behind a problem is to be stored
			}
			select {
			case pending <- b:
				return !r.Strict || b.err == nil && b.skipped() == nil
			case <-ctx.Done():
				return false
			}
		})
	}()
	var err error
	for b := range pending {
		<-b.settled
		if err != nil {
			continue // a batch behind the one that failed; it may have been stored, which does no harm
		}
		if err = r.acknowledge(ctx, b); err != nil {
			cancel()
		}
	}
	if err == nil {
		err = readErr
	}
	return err
}

// acknowledge takes a batch that is stored into the report and the journal.
func (r *run) acknowledge(ctx context.Context, b *batch) error {
	if b.err != nil {
		return b.err
	}
	r.report.add(b)
	since := map[string]time.Time{}
	for _, namespace := range b.spaces {
		if _, known := r.report.Namespaces[namespace]; known {
			continue
		}
		var err error
		if r.Journal != nil {
			if since[namespace], err = r.store.since(ctx, namespace); err != nil {
				return err
			}
		}
		r.report.Namespaces[namespace] = since[namespace]
	}
	if r.Journal != nil {
		if err := r.Journal.append(entry{b.end, b.outcome, since}); err != nil {
			return err
		}
	}
	r.Progress(b.done, r.report)
	if problem := b.skipped(); r.Strict && problem != nil {
		return &StrictError{*problem}
	}
	return nil
}

// read hands batches out until hand returns false, leaving out what lies before from.
func (r *run) read(ctx context.Context, from Position, hand func(*batch) bool) error {
	digest := newDigest()
	b := newBatch()
	for item, err := range r.source.Items(ctx) {
		if err != nil {
			return errors.Join(err, r.rest(b, hand))
		}
		if err := digest.add(item); err != nil {
			return err
		}
		if digest.items <= from.Items {
			if digest.items == from.Items && digest.position().Digest != from.Digest {
				return errChanged
			}
			continue
		}
		b.add(item)
		b.end = digest.position()
		if b.full() || (r.Strict && item.Problem != nil) {
			if !hand(b) {
				return ctx.Err()
			}
			b = newBatch()
		}
	}
	if digest.items < from.Items {
		return errChanged
	}
	return r.rest(b, hand)
}

func (r *run) rest(b *batch, hand func(*batch) bool) error {
	if b.end.Items > 0 {
		hand(b)
	}
	return nil
}

// batch is what one call stores, together with the positions between its memories that cannot be stored.
type batch struct {
	items   []Item
	bytes   int
	spaces  []string // of its memories
	done    int64
	end     Position
	settled chan struct{} // closed when what follows is known
	outcome
	err error
}

// outcome counts what became of a batch.
type outcome struct {
	Stored    int64     `json:"stored,omitempty"`
	Unchanged int64     `json:"unchanged,omitempty"`
	Updated   int64     `json:"updated,omitempty"`
	Forgotten int64     `json:"forgotten,omitempty"`
	Skipped   int64     `json:"skipped,omitempty"`
	Problems  []Problem `json:"problems,omitempty"`
}

func newBatch() *batch { return &batch{settled: make(chan struct{})} }

func (b *batch) add(item Item) {
	b.done = item.Done
	b.Problems = append(b.Problems, item.Notes...)
	if item.Problem != nil {
		b.skip(*item.Problem)
		return
	}
	b.items = append(b.items, item)
	b.bytes += proto.Size(item.Memory)
	if namespace := item.Memory.GetNamespace(); !slices.Contains(b.spaces, namespace) {
		b.spaces = append(b.spaces, namespace)
	}
}

func (b *batch) full() bool {
	return len(b.items) >= batchSize || b.bytes >= batchBytes || len(b.Problems) >= batchSize
}

func (b *batch) skip(p Problem) {
	b.Skipped++
	b.Problems = append(b.Problems, p)
}

// skipped returns the first position of the batch that could not be imported, or nil.
func (b *batch) skipped() *Problem {
	for i := range b.Problems {
		if b.Problems[i].Skipped {
			return &b.Problems[i]
		}
	}
	return nil
}

// digest identifies what has been read of a source.
type digest struct {
	hash  hash.Hash
	items int64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) add(item Item) error {
	d.items++
	var text []byte
	if item.Problem != nil {
		text = []byte(item.Problem.Reason)
	} else {
		var err error
		if text, err = (proto.MarshalOptions{Deterministic: true}).Marshal(item.Memory); err != nil {
			return err
		}
	}
	d.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	d.hash.Write(text)
	return nil
}

func (d *digest) position() Position { return Position{d.items, fmt.Sprintf("%x", d.hash.Sum(nil))} }
