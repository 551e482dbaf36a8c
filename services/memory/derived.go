package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/store/record"
)

// Derived is an index that new memories get in the transaction that stores them, instead of by a task in the queue. It asks no
// server and takes microseconds a memory. Tx is the engine's transaction.
type Derived[Tx any] interface {
	// Prepare does what needs no transaction for records that are about to be stored. put does the rest for those that were
	// stored. It may run several times, in one transaction at a time. Neither touches sensitive records.
	Prepare(ctx context.Context, records []record.Record) (put func(ctx context.Context, tx Tx, stored map[record.Key]bool) error, err error)
}

// putter is what Prepare returns, for either engine.
type putter func(ctx context.Context, tx transaction, stored map[record.Key]bool) error

// inlinePutter adds or replaces the entries of records in the inline index.
type inlinePutter func(ctx context.Context, tx transaction, records []record.Record) error

// prepared are the indexes that are ready for an insert: the inline one, and derived ones by name.
type prepared struct {
	inline  inlinePutter
	derived map[string]putter
}

// unprepared has no derived index, and an inline one that does all of its work in the transaction.
func (w writes) unprepared(ctx context.Context) prepared { return prepared{inline: w.inline(ctx, nil)} }

// derivers prepare derived indexes, by name.
type derivers map[string]func(ctx context.Context, records []record.Record) (putter, error)

// deriver adapts a derived index; in makes its transaction.
func deriver[Tx any](d Derived[Tx], in func(transaction) Tx) func(context.Context, []record.Record) (putter, error) {
	return func(ctx context.Context, records []record.Record) (putter, error) {
		put, err := d.Prepare(ctx, records)
		return func(ctx context.Context, tx transaction, stored map[record.Key]bool) error {
			return put(ctx, in(tx), stored)
		}, err
	}
}

// prepare prepares all indexes at once. It leaves out derived ones that fail: a task is enqueued for them.
func (w writes) prepare(ctx context.Context, records []record.Record) prepared {
	ready := make([]putter, len(w.derived))
	names := slices.Sorted(maps.Keys(w.derived))
	var preparing errgroup.Group
	for i, name := range names {
		preparing.Go(func() error {
			return panics.Catch(ctx, nil, "prepare "+name, func() error {
				put, err := w.derived[name](ctx, records)
				if err == nil {
					ready[i] = put
				}
				return err
			})
		})
	}
	p := prepared{inline: w.inline(ctx, records), derived: map[string]putter{}}
	_ = preparing.Wait()
	for i, name := range names {
		if ready[i] != nil {
			p.derived[name] = ready[i]
		}
	}
	return p
}

// errDerived marks the error of a derived index. The records can be stored without it.
var errDerived = errors.New("derived index")

// put writes the indexes of records that the transaction has stored. Dense comes before graph: all transactions lock in this order.
func (p prepared) put(ctx context.Context, tx transaction, records []record.Record) error {
	stored := make(map[record.Key]bool, len(records))
	for _, r := range records {
		if !r.Sensitive {
			stored[r.Key()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.derived)) {
		if err := panics.Catch(ctx, nil, "put "+name, func() error { return p.derived[name](ctx, tx, stored) }); err != nil {
			return errors.Join(errDerived, err)
		}
	}
	return nil
}
