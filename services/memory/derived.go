package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Derived is an index that new memories get in the transaction that stores them, instead of by a task in the queue. It asks no
// server and takes microseconds a memory.
type Derived interface {
	// Prepare does what needs no transaction for records that are about to be stored. put does the rest for those that were
	// stored. It may run several times, in one transaction at a time. Neither touches sensitive records.
	Prepare(ctx context.Context, records []record.Record) (put sqldb.Putter, err error)
}

// prepared are the indexes that are ready for an insert: the inline one, and derived ones by name.
type prepared struct {
	inline  func(ctx context.Context, tx sqldb.Tx, records []record.Record) error
	derived map[string]sqldb.Putter
}

// prepare prepares all indexes at once. It leaves out derived ones that fail: a task is enqueued for them.
func (s *Store) prepare(ctx context.Context, records []record.Record) prepared {
	ready := make([]sqldb.Putter, len(s.derived))
	names := slices.Sorted(maps.Keys(s.derived))
	var preparing errgroup.Group
	for i, name := range names {
		preparing.Go(func() error {
			return panics.Catch(ctx, nil, "prepare "+name, func() error {
				put, err := s.derived[name].Prepare(ctx, records)
				if err == nil {
					ready[i] = put
				}
				return err
			})
		})
	}
	p := prepared{inline: s.words.Prepare(ctx, records), derived: map[string]sqldb.Putter{}}
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
func (p prepared) put(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
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
