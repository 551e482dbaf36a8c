package importer

import (
	"cmp"
	"context"
	"errors"
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

// Options say how to import. The zero value skips positions that cannot be stored.
type Options struct {
	DryRun  bool          // count and report, but store nothing
	Strict  bool          // stop at the first position that cannot be imported: all before it are stored
	Timeout time.Duration // of storing a batch; 0 is none
	// Progress is called after each batch; may be nil.
	Progress func(done int64, report *Report)
}

// Run imports a source. The report is valid even if Run returns an error.
func Run(ctx context.Context, memories triskelev1.MemoryServiceClient, source Source, options Options) (*Report, error) {
	report := &Report{DryRun: options.DryRun, Outcome: Outcome{Problems: []Problem{}}, Namespaces: map[string]bool{}}
	r := &run{Options: options, memories: memories, source: source, report: report}
	return report, r.run(ctx)
}

type run struct {
	Options
	memories triskelev1.MemoryServiceClient
	source   Source
	report   *Report
}

// run is one pass over the source. Batches are stored concurrently, and acknowledged in the source's order.
func (r *run) run(ctx context.Context) (err error) {
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
			if err = r.acknowledge(pending[0]); err != nil {
				cancel()
			}
		}
		return err
	}
	readErr := r.read(ctx, func(b *batch) error {
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

func (r *run) acknowledge(b *batch) error {
	if b.err != nil {
		return b.err
	}
	r.report.add(b.Outcome)
	for _, namespace := range b.spaces {
		r.report.Namespaces[namespace] = true
	}
	if r.Progress != nil {
		r.Progress(b.done, r.report)
	}
	if i := slices.IndexFunc(b.Problems, func(p Problem) bool { return p.Skipped }); r.Strict && i >= 0 {
		return errors.New(b.Problems[i].Position + ": " + b.Problems[i].Detail)
	}
	return nil
}

// read calls hand with each batch of items.
func (r *run) read(ctx context.Context, hand func(*batch) error) error {
	var b *batch
	err := r.source.Read(ctx, func(item Item) error {
		if b == nil {
			b = &batch{settled: make(chan struct{})}
		}
		b.add(item)
		if whole := b; b.full() || (r.Strict && item.Problem != nil) {
			b = nil
			return hand(whole)
		}
		return nil
	})
	if b != nil {
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
	settled chan struct{} // closed when Outcome and err are final
	Outcome
	err error
}

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
