package importer

import (
	"cmp"
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
	// batchSize and batchBytes bound the memories of one call.
	batchSize  = 200
	batchBytes = 1 << 20
	// inFlight is how many batches may be stored while the next one is read.
	inFlight = 2
)

// Options say how to import. The zero value skips positions that cannot be stored, and keeps no position.
type Options struct {
	DryRun  bool          // count and report, but store nothing
	Strict  bool          // stop at the first position that cannot be imported
	Timeout time.Duration // of storing a batch; 0 is none
	Journal *Journal      // keeps the position; may be nil
	// Progress is called after each batch; may be nil.
	Progress func(done int64, report *Report)
	// Tell is called with messages for the user; may be nil.
	Tell func(string)
}

// StrictError ends a strict import. All positions before the problem's are stored.
type StrictError struct{ Problem Problem }

func (e *StrictError) Error() string { return e.Problem.Position + ": " + e.Problem.Detail }

// Reasons to start an interrupted import over.
var (
	errChanged = errors.New("the source has changed")   // it no longer begins with the imported items
	errGone    = errors.New("the database has changed") // a namespace was deleted or created anew
)

// Run imports a source. If the journal has the position of an interrupted run, and the source still begins with the same items,
// the import resumes there. The report covers both runs. It is valid even if Run returns an error.
func Run(ctx context.Context, memories triskelev1.MemoryServiceClient, source Source, options Options) (*Report, error) {
	if options.Progress == nil {
		options.Progress = func(int64, *Report) {}
	}
	if options.Tell == nil {
		options.Tell = func(string) {}
	}
	r := &run{Options: options, memories: memories, source: source, report: newReport()}
	r.report.DryRun = options.DryRun
	err := r.run(ctx)
	if errors.Is(err, errChanged) || errors.Is(err, errGone) {
		options.Tell(err.Error() + " since the interrupted import; starting over, which stores nothing twice")
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
	memories triskelev1.MemoryServiceClient
	source   Source
	report   *Report
}

// resume returns the journal's position, and takes over the report of the interrupted run. It returns errGone if a namespace of
// that run is no longer the same.
func (r *run) resume(ctx context.Context) (Position, error) {
	if r.Journal == nil {
		return Position{}, nil
	}
	from, report, err := r.Journal.load()
	if err != nil {
		return Position{}, err
	}
	for namespace, since := range report.Namespaces {
		now, err := r.since(ctx, namespace)
		if err != nil {
			return Position{}, err
		}
		if !now.Equal(since) {
			return Position{}, errGone
		}
	}
	if from.Items > 0 {
		r.report = report
		r.Tell(fmt.Sprintf("resuming after %d positions", from.Items))
	}
	return from, nil
}

// run is one pass over the source. Batches are stored concurrently, and acknowledged in the source's order.
func (r *run) run(ctx context.Context) error {
	from, err := r.resume(ctx)
	if err != nil {
		return err
	}
	if notes, ok := r.source.(*Markdown); ok {
		if err := notes.compare(ctx, r.memories); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inFlight := inFlight
	if r.Strict {
		inFlight = 0 // nothing after a problem may be stored
	}
	var pending []*batch
	settle := func(most int) error { // until no more than most are pending
		for ; len(pending) > most; pending = pending[1:] {
			<-pending[0].settled
			if err != nil {
				continue // a batch after the one that failed; it may be stored, and a later run stores it only once
			}
			if err = r.acknowledge(ctx, pending[0]); err != nil {
				cancel()
			}
		}
		return err
	}
	readErr := r.read(ctx, from, func(b *batch) error {
		if slices.ContainsFunc(pending, func(p *batch) bool { return b.supersedes(p) || p.supersedes(b) }) {
			if err := settle(0); err != nil { // concurrent transactions do not see each other's memories, and would not link them
				return err
			}
		}
		go func() {
			defer close(b.settled)
			if b.err = r.write(ctx, b); b.err == nil {
				b.err = r.forget(ctx, b)
			}
		}()
		pending = append(pending, b)
		return settle(inFlight)
	})
	return cmp.Or(settle(0), readErr)
}

// acknowledge adds a stored batch to the report and the journal.
func (r *run) acknowledge(ctx context.Context, b *batch) error {
	if b.err != nil {
		return b.err
	}
	r.report.add(b.Outcome)
	since := map[string]time.Time{}
	for _, namespace := range b.spaces {
		if _, known := r.report.Namespaces[namespace]; known {
			continue
		}
		var err error
		if r.Journal != nil {
			if since[namespace], err = r.since(ctx, namespace); err != nil {
				return err
			}
		}
		r.report.Namespaces[namespace] = since[namespace]
	}
	if r.Journal != nil {
		if err := r.Journal.append(entry{b.end, b.Outcome, since}); err != nil {
			return err
		}
	}
	r.Progress(b.done, r.report)
	if problem := b.skipped(); r.Strict && problem != nil {
		return &StrictError{*problem}
	}
	return nil
}

// read calls hand with each batch of items after from.
func (r *run) read(ctx context.Context, from Position, hand func(*batch) error) error {
	digest, b := digest{hash: sha256.New()}, newBatch()
	err := r.source.Read(ctx, func(item Item) error {
		if err := digest.add(item); err != nil {
			return err
		}
		if digest.items <= from.Items {
			if digest.items == from.Items && digest.position().Digest != from.Digest {
				return errChanged
			}
			return nil
		}
		b.add(item)
		b.end = digest.position()
		if whole := b; b.full() || (r.Strict && item.Problem != nil) {
			b = newBatch()
			return hand(whole)
		}
		return nil
	})
	if err == nil && digest.items < from.Items {
		return errChanged
	}
	if b.end.Items > 0 {
		err = cmp.Or(hand(b), err)
	}
	return cmp.Or(ctx.Err(), err)
}

// batch is the items of one call, with the skipped positions between them.
type batch struct {
	items   []Item // those with a memory
	forget  []*triskelev1.ForgetRequest
	bytes   int // of the memories
	spaces  []string
	done    int64
	end     Position
	settled chan struct{} // closed when Outcome and err are final
	Outcome
	err error
}

func newBatch() *batch { return &batch{settled: make(chan struct{})} }

func (b *batch) add(item Item) {
	b.done = item.Done
	b.Problems = append(b.Problems, item.Notes...)
	if item.Problem != nil {
		b.skip(*item.Problem)
		return
	}
	if item.Forget != nil {
		b.forget = append(b.forget, item.Forget)
		return
	}
	if namespace := item.Memory.GetNamespace(); !slices.Contains(b.spaces, namespace) {
		b.spaces = append(b.spaces, namespace)
	}
	if item.Unchanged {
		b.Unchanged++
		return
	}
	b.items = append(b.items, item)
	b.bytes += proto.Size(item.Memory)
}

func (b *batch) full() bool {
	return len(b.items) >= batchSize || b.bytes >= batchBytes || len(b.Problems) >= batchSize || b.Unchanged >= pageSize
}

func (b *batch) skip(p Problem) {
	b.Skipped++
	b.Problems = append(b.Problems, p)
}

// supersedes reports whether a memory of the batch supersedes one of another batch.
func (b *batch) supersedes(other *batch) bool {
	return slices.ContainsFunc(b.items, func(newer Item) bool {
		id := newer.Memory.GetSupersedes()
		return id != "" && slices.ContainsFunc(other.items, func(older Item) bool { return older.Memory.GetId() == id })
	})
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

// digest hashes the items read from a source.
type digest struct {
	hash  hash.Hash
	items int64
}

func (d *digest) add(item Item) error {
	d.items++
	var message proto.Message = item.Memory
	if item.Forget != nil {
		message = item.Forget
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return err
	}
	if item.Problem != nil {
		text = []byte(item.Problem.Reason)
	}
	d.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	d.hash.Write(text)
	return nil
}

func (d *digest) position() Position { return Position{d.items, fmt.Sprintf("%x", d.hash.Sum(nil))} }
