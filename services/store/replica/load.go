package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
)

const (
	// loadTime bounds loading an image.
	loadTime = 5 * time.Minute
	// checkEvery is the number of rows read between two looks at the memory.
	checkEvery = 1 << 14
	// putAtOnce is the number of memories that are handed over at a time while an image is loaded.
	putAtOnce = 1 << 11
	// small is the number of memories up to which a namespace need not wait for the loads of larger ones.
	small = 10_000
)

var errNoNamespace = errors.New("the namespace does not exist")

// load reads a namespace into an image. A panic counts as a failed load.
func (s *Set) load(img *image) {
	ctx, cancel := context.WithTimeout(s.stop, loadTime)
	defer cancel()
	var at position
	start, told := time.Now(), s.told.Load()
	err := panics.Catch(ctx, s.log, "load a namespace", func() (err error) {
		if img.tooMany > 0 { // reading all of them again would take long, and room from others
			if n, err := s.count(ctx, img.namespace, img.tooMany); err != nil || n == img.tooMany {
				return cmp.Or(err, ErrTooLarge)
			}
		}
		whole, release, err := s.admit(ctx, img.namespace)
		if err != nil {
			return err
		}
		defer release()
		start, told = time.Now(), s.told.Load()
		at, err = s.read(ctx, img, whole)
		return err
	})
	s.mu.Lock()
	s.coming -= img.coming
	img.coming = 0
	defer func() {
		close(img.loading)
		img.loading = nil
		large := img.bytes >= allowedGarbage
		s.mu.Unlock()
		if large {
			debug.FreeOSMemory()
		}
	}()
	switch img.err = err; {
	case err == nil:
		img.at, img.checked, img.told, img.loaded, img.version = at, start, told, true, s.versions.Add(1)
		s.weigh(img, img.size())
		s.wakeFollower() // it may have looked before the image was loaded
	case errors.Is(err, errNoNamespace):
		img.checked = start
		s.remove(img)
	default:
		if errors.Is(err, ErrTooLarge) && img.rows != nil {
			img.tooMany = img.rows.Count()
		}
		img.rows, img.parts = nil, nil
		img.retry = time.Now().Add(retryLoad)
		if errors.Is(err, ErrTooLarge) {
			img.retry = time.Now().Add(retryLarge)
		} else {
			s.log.WarnContext(ctx, "cannot load a namespace into memory", "error", err.Error())
		}
	}
}

// admit waits until a namespace may be loaded. It need not wait for large ones if it is small; then whole is false.
func (s *Set) admit(ctx context.Context, namespace string) (whole bool, release func(), err error) {
	select {
	case s.loads <- struct{}{}:
		return true, func() { <-s.loads }, nil
	default:
	}
	n, err := s.count(ctx, namespace, small+1)
	if err != nil {
		return false, nil, err
	}
	others := s.smallLoads
	if n > small {
		others = nil
	}
	select {
	case s.loads <- struct{}{}:
		return n > small, func() { <-s.loads }, nil
	case others <- struct{}{}:
		return false, func() { <-others }, nil
	case <-ctx.Done():
		return false, nil, ctx.Err()
	}
}

// count returns the number of a namespace's memories, up to a bound.
func (s *Set) count(ctx context.Context, namespace string, most int) (n int, err error) {
	err = s.source.snapshot(ctx, namespace, false, func(tx Tx) error {
		return tx.Each(ctx, `SELECT count(*) FROM (SELECT 1 FROM memory.memories WHERE namespace = $1 LIMIT $2) AS m`, []any{namespace, most}, []any{&n},
			func() error { return nil })
	})
	return n, err
}

// read fills an image. The parts are read side by side, each on a snapshot that is later than that of the rows: what changed
// in between is in the log.
func (s *Set) read(ctx context.Context, img *image, whole bool) (at position, err error) {
	img.rows, img.parts = NewRows(), nil
	img.rows.Question = img.question
	for _, l := range s.legs {
		img.parts = append(img.parts, l.empty(img.rows))
	}
	err = s.source.snapshot(ctx, img.namespace, whole, func(tx Tx) error {
		c, err := s.source.since(ctx, tx, img.namespace, position{})
		if err != nil {
			return err
		}
		if at = c.now; !c.exists {
			return errNoNamespace
		}
		return s.putAll(ctx, tx, img)
	})
	if err != nil {
		return at, err
	}
	rowBytes, sizes := img.rows.bytes(), make([]atomic.Int64, len(img.parts))
	reading, ctx := errgroup.WithContext(ctx)
	for i, part := range img.parts {
		reading.Go(func() error {
			return panics.Catch(ctx, s.log, "load a part of a namespace", func() error {
				return s.source.snapshot(ctx, img.namespace, whole, func(tx Tx) error {
					tx.check = func() error {
						sizes[i].Store(part.Bytes())
						all := rowBytes
						for j := range sizes {
							all += sizes[j].Load()
						}
						return s.fits(img, all)
					}
					apply, err := part.Read(ctx, tx, img.namespace, nil)
					if err != nil {
						return fmt.Errorf("%s: %w", s.legs[i].name, err)
					}
					if apply != nil {
						apply()
					}
					return nil
				})
			})
		})
	}
	if err := reading.Wait(); err != nil {
		return at, err
	}
	return at, s.fits(img, img.size())
}

// putAll reads all memories. Another goroutine puts them into the rows meanwhile.
func (s *Set) putAll(ctx context.Context, tx Tx, img *image) error {
	var putting errgroup.Group
	var bytes atomic.Int64 // of the rows so far
	batches := make(chan []Memory, 2)
	putting.Go(func() error {
		err := panics.Catch(ctx, s.log, "load rows", func() error {
			weighed := 0 // rows
			for batch := range batches {
				for _, m := range batch {
					img.rows.Put(m)
				}
				if n := img.rows.Len(); n > weighed+weighed/8 { // not each time: with tags of their own it takes as long as the rows
					weighed = n
					bytes.Store(img.rows.bytes())
				}
			}
			return nil
		})
		for range batches { // after a panic the reader must not wait for ever
		}
		return err
	})
	tx.check = func() error { return s.fits(img, bytes.Load()) }
	batch := make([]Memory, 0, putAtOnce)
	err := readMemories(ctx, tx, img.namespace, nil, func(m Memory, _ int64) {
		if batch = append(batch, m); len(batch) == putAtOnce {
			batches <- batch
			batch = make([]Memory, 0, putAtOnce)
		}
	})
	batches <- batch
	close(batches)
	panicked := putting.Wait()
	return cmp.Or(err, panicked)
}

// errCrowded is the error for an image that has no room while others are being loaded.
var errCrowded = fmt.Errorf("%w: with others that are being loaded it is too large (--search-memory)", ErrCold)

// fits notes the bytes of an image that is being loaded and makes room, or returns an error if there is none.
func (s *Set) fits(img *image, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming += bytes - img.coming
	img.coming = bytes
	switch {
	case bytes > s.bytes:
		return ErrTooLarge
	case s.coming > s.bytes:
		s.coming -= bytes // at once: the others must not fail as well before this load has ended
		img.coming = 0
		return errCrowded
	}
	s.evict(img)
	return nil
}

// size is about the memory of an image.
func (img *image) size() int64 {
	bytes := img.rows.bytes() + 8*int64(cap(img.seen))
	for _, part := range img.parts {
		bytes += part.Bytes()
	}
	return bytes
}

// missing returns the keys of a filter's metadata that the rows do not know.
func (r *Rows) missing(metadata map[string]any) (keys []string) {
	for key := range metadata {
		if !r.keys[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// labelled is a value of a metadata key that a memory has.
type labelled struct {
	id   uuid.UUID
	name string
}
