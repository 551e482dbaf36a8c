package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/panics"
)

const (
	// pollLeast is the least time between two polls, and pollAway the time between two while the database does not answer.
	pollLeast, pollAway = 5 * time.Millisecond, 250 * time.Millisecond
	// pollAll is how often images that are not in use are polled, so that the log reaches back to them.
	pollAll = 30 * time.Second
	// pollTime bounds a poll; catchUpTime bounds reading what it found.
	pollTime, catchUpTime = 3 * time.Second, time.Minute
	// applyAtOnce is the number of memories that are applied while searches wait.
	applyAtOnce = 512
	// maxKeys bounds the metadata keys whose values are in memory.
	maxKeys = 32
	// weighEvery is how often an image's size is computed.
	weighEvery = time.Second
)

// Follow keeps the images that are in use up to date, until ctx ends.
func (s *Set) Follow(ctx context.Context) {
	pause := max(s.config.MaxAge*3/4, pollLeast) // the rest of MaxAge is for the poll itself
	var all time.Time                            // when all images were polled
	for {
		within := inUseFor
		if time.Since(all) > pollAll {
			within, all = math.MaxInt64, time.Now()
			s.prune(ctx)
		}
		if s.away.Load() { // or nobody would notice that it answers again before the next search
			within = math.MaxInt64
		}
		images, began := s.usedWithin(within), time.Now()
		if len(images) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			case <-time.After(pollAll):
			}
			continue
		}
		err := panics.Catch(ctx, s.log, "follow the database", func() error { return s.poll(ctx, images) })
		if ctx.Err() != nil {
			return
		}
		wait := max(pause-time.Since(began), pollLeast) // a slow poll would let images get too old
		if err != nil {
			s.lost(ctx, err)
			wait = pollAway
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// usedWithin returns the images that were searched within a time.
func (s *Set) usedWithin(within time.Duration) (images []*image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, img := range slices.Backward(s.images.Values()) {
		if now.Sub(img.used) > within {
			break
		}
		if img.loaded {
			images = append(images, img)
		}
	}
	return images
}

// poll asks which images are behind, and brings these up to date.
func (s *Set) poll(ctx context.Context, images []*image) error {
	start, told := time.Now(), s.told.Load()
	namespaces, at := make([]string, 0, len(images)), make([]position, 0, len(images))
	polled := images[:0]
	for _, img := range images {
		select {
		case img.turn <- struct{}{}: // a busy image is being brought up to date
			polled, namespaces, at = append(polled, img), append(namespaces, img.namespace), append(at, img.at)
			<-img.turn
		default:
		}
	}
	if len(polled) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	changed, err := s.source.poll(asking, namespaces, at)
	if err != nil {
		return err
	}
	if s.away.Swap(false) {
		s.log.InfoContext(ctx, "the database answers again")
	}
	for i, img := range polled {
		if changed[i] {
			reading, cancel := context.WithTimeout(ctx, catchUpTime)
			err := panics.Catch(ctx, s.log, "bring a namespace up to date", func() error { return s.catchUp(reading, img, Need{}, start, told, true) })
			cancel()
			switch {
			case err == nil || errors.Is(err, errDead) || errors.Is(err, errBusy):
			case answered(err): // by what cannot be read: the other namespaces go on
				s.log.WarnContext(ctx, "a namespace will be loaded anew: its changes cannot be read", "error", err.Error())
				s.bury(img)
			default:
				return err
			}
			continue
		}
		select {
		case img.turn <- struct{}{}:
			if img.at == at[i] {
				s.note(img, start, told)
			}
			<-img.turn
		default:
		}
	}
	return nil
}

// note records that an image has everything that was committed at a time.
func (s *Set) note(img *image, at time.Time, told int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(img.checked) {
		img.checked = at
	}
	img.told = max(img.told, told)
}

// catchUp applies what was committed before a search arrived, unless another search has done that. Unless a poll has found a change,
// it asks whether there is one first, which costs less than a snapshot.
func (s *Set) catchUp(ctx context.Context, img *image, need Need, arrived time.Time, told int64, changed bool) error {
	select {
	case img.turn <- struct{}{}:
	case <-ctx.Done():
		return errBusy
	}
	inTurn := true
	defer func() {
		if inTurn {
			<-img.turn
		}
	}()
	s.mu.Lock()
	// A standby has replayed a write only where a search has waited for it, which each does by itself.
	current := img.checked.After(arrived) && img.told >= told && need.AtLeast == 0
	s.mu.Unlock()
	keys := img.rows.missing(need.Filter.Metadata)               // only the holder of turn changes them
	if len(keys) > 0 && len(img.rows.keys)+len(keys) > maxKeys { // the others will be forgotten
		keys = slices.Collect(maps.Keys(need.Filter.Metadata))
	}
	if current && len(keys) == 0 {
		return nil
	}
	start, told := time.Now(), s.told.Load()
	if !changed && len(keys) == 0 && need.AtLeast == 0 {
		if still, err := s.source.still(ctx, img.namespace, img.at); err != nil || still {
			if err == nil {
				s.note(img, start, told)
			}
			return err
		}
	}
	var u update
	err := s.source.snapshot(ctx, img.namespace, false, func(tx Tx) (err error) {
		u, err = s.readUpdate(ctx, tx, img, keys)
		return err
	})
	switch {
	case err != nil:
		return err
	case !u.continues(img.at):
		s.bury(img)
		return errDead
	}
	applied := make(chan error, 1)
	inTurn = false
	go func() { // it waits for slow searches, longer than this one may
		err := panics.Catch(ctx, s.log, "apply changes", func() error {
			u.apply(img, s.versions.Add(1))
			img.at = u.now
			s.note(img, start, told)
			s.weighChanged(img, u)
			return nil
		})
		<-img.turn
		applied <- err
	}()
	select {
	case err := <-applied:
		return err
	case <-ctx.Done():
		return errBusy
	}
}

// weighChanged computes the size of an image that has changed, now and then.
func (s *Set) weighChanged(img *image, u update) {
	if u.memories() == 0 || time.Since(img.weighed) <= weighEvery {
		return
	}
	img.weighed = time.Now()
	size := img.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.weigh(img, size); size > s.bytes { // found again when it is loaded
		s.remove(img)
	}
}

// bury removes an image whose name another namespace has now.
func (s *Set) bury(img *image) {
	img.mu.Lock()
	img.dead = true
	img.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(img)
}

// update is what an image lacks.
type update struct {
	changes
	found     map[uuid.UUID]Memory // of the changed memories, those that exist
	sequences []int64              // of found
	parts     []func()             // of the legs that read something
	keys      []string             // metadata keys that are new
	labels    []labelled           // values of new keys
}

func (u update) memories() (n int) {
	for _, ids := range u.ids {
		n += len(ids)
	}
	return n
}

func (s *Set) readUpdate(ctx context.Context, tx Tx, img *image, keys []string) (u update, err error) {
	if u.changes, err = s.source.since(ctx, tx, img.namespace, img.at); err != nil || !u.continues(img.at) {
		return u, err
	}
	if ids := u.ids[Records]; len(ids) > 0 {
		if err := u.readRecords(ctx, tx, img, ids); err != nil {
			return u, err
		}
	}
	for i, l := range s.legs {
		ids := u.ids[l.kind]
		for chunk := range slices.Chunk(ids, applyAtOnce) {
			apply, err := img.parts[i].Read(ctx, tx, img.namespace, chunk)
			if err != nil {
				return u, fmt.Errorf("%s: %w", l.name, err)
			}
			if apply != nil {
				u.parts = append(u.parts, apply)
			}
		}
	}
	for _, key := range keys {
		if err := readMetadata(ctx, tx, img.namespace, key, nil, func(id uuid.UUID, name string) {
			u.labels = append(u.labels, labelled{id, name})
		}); err != nil {
			if ctx.Err() != nil { // all memories take long to read
				err = errBusy
			}
			return u, err
		}
	}
	u.keys = keys
	return u, nil
}

func (u *update) readRecords(ctx context.Context, tx Tx, img *image, ids []uuid.UUID) error {
	u.found = make(map[uuid.UUID]Memory, len(ids))
	if err := readMemories(ctx, tx, img.namespace, ids, func(m Memory, sequence int64) {
		u.found[m.ID] = m
		u.sequences = append(u.sequences, sequence)
	}); err != nil {
		return err
	}
	for key := range img.rows.keys {
		if err := readMetadata(ctx, tx, img.namespace, key, ids, func(id uuid.UUID, name string) {
			if m, there := u.found[id]; there {
				m.Metadata = append(m.Metadata, name)
				u.found[id] = m
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// apply changes an image: at once, or in steps between which searches go on. Then a new memory may lack its words for a
// moment. If anything changed, the image gets the version.
func (u update) apply(img *image, version int64) {
	locked := func(fn func()) {
		img.mu.Lock()
		defer img.mu.Unlock()
		fn()
	}
	if u.memories() <= applyAtOnce {
		img.mu.Lock()
		defer img.mu.Unlock()
		locked = func(fn func()) { fn() }
	}
	for chunk := range slices.Chunk(u.ids[Records], applyAtOnce) {
		locked(func() {
			for _, id := range chunk {
				if m, exists := u.found[id]; exists {
					img.rows.Put(m)
				} else if row, known := img.rows.Row(id); known {
					for _, part := range img.parts {
						part.Drop(row)
					}
					img.rows.Drop(row)
				}
			}
		})
	}
	for _, apply := range u.parts {
		locked(apply)
	}
	locked(func() {
		img.seen = append(img.seen, u.sequences...)
		img.seen = slices.Delete(img.seen, 0, max(0, len(img.seen)-maxSequences))
		if len(u.ids) > 0 {
			img.version = version
		}
		if len(u.keys) == 0 {
			return
		}
		if len(img.rows.keys)+len(u.keys) > maxKeys {
			img.rows.forgetKeys()
		}
		for _, key := range u.keys {
			img.rows.keys[key] = true
		}
		for _, l := range u.labels {
			if row, known := img.rows.Row(l.id); known {
				img.rows.label(row, l.name)
			}
		}
	})
}

// forgetKeys removes all metadata labels.
func (r *Rows) forgetKeys() {
	gone := map[uint32]bool{}
	for name, label := range r.labels {
		if strings.HasPrefix(name, "m") {
			gone[label] = true
			r.forgetLabel(label)
		}
	}
	for row := range r.of {
		r.unlist(uint32(row), func(label uint32) bool { return gone[label] })
	}
	clear(r.keys)
}

// prune removes from the log what all images have had time to read.
func (s *Set) prune(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	if err := s.source.prune(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "cannot prune the log of changes", "error", err.Error())
	}
}
