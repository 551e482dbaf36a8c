package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

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
	ready := prepared{derived: map[string]sqldb.Putter{}}
	var mu sync.Mutex
	var preparing errgroup.Group
	for name, index := range s.derived {
		preparing.Go(func() error {
			return panics.Catch(ctx, nil, "prepare "+name, func() error {
				put, err := index.Prepare(ctx, records)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					ready.derived[name] = put
				}
				return err
			})
		})
	}
	ready.inline = s.words.Prepare(ctx, records)
	_ = preparing.Wait()
	return ready
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
