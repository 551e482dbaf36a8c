package replica

import (
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/triskele/triskele/services/store/record"
)

// Selection are the rows that a search may return: those of live memories that pass its filter. It is valid as long as its
// View.
type Selection struct {
	rows       *Rows
	base       bitset // without a narrow filter
	passing    bitset // with one
	time       int64  // when memories must be live
	past       bool   // time is not now
	mortal     bool   // a row in base may have a memory that is not live
	superseded bool   // superseded memories are live
}

// bitsets has buffers.
var bitsets = sync.Pool{New: func() any { return new(bitset) }}

func takeBitset(n int) bitset {
	b := *bitsets.Get().(*bitset)
	if cap(b) < n {
		return make(bitset, n)
	}
	return b[:n]
}

func releaseBitset(b bitset) { bitsets.Put(&b) }

// Select returns the rows of live memories that pass a filter, at a time; the zero time means now. Keys of the filter's
// metadata must have been read.
func (r *Rows) Select(f record.Filter, asOf time.Time) *Selection {
	s := &Selection{rows: r, base: r.current, time: asOf.UnixMicro(), past: !asOf.IsZero(), superseded: f.IncludeSuperseded}
	if !s.past {
		s.time = time.Now().UnixMicro()
	}
	if s.past || s.superseded {
		s.base = r.present
	}
	s.mortal = s.past || r.mortal > 0
	if !f.Narrow() {
		return s
	}
	passing, scratch := takeBitset(len(s.base)), takeBitset(len(s.base))
	defer releaseBitset(scratch)
	copy(passing, s.base)
	for _, tag := range f.TagsAll {
		passing.and(scratch, r.bitmaps(tagLabel, tag))
	}
	if len(f.TagsAny) > 0 {
		passing.and(scratch, r.bitmaps(tagLabel, f.TagsAny...))
	}
	if len(f.Categories) > 0 {
		passing.and(scratch, r.bitmaps(categoryLabel, f.Categories...))
	}
	for key, value := range f.Metadata {
		passing.and(scratch, r.bitmaps(func(key string) string { return metadataLabel(key, value) }, key))
	}
	passing.within(r.Created, f.CreatedFrom, f.CreatedBefore)
	passing.within(r.From, f.OccurredFrom, f.OccurredBefore)
	if s.mortal {
		for row := range passing.each {
			if !s.live(row) {
				passing.clear(row)
			}
		}
	}
	s.passing = passing
	return s
}

// within keeps the rows whose time is from one time, and before another; the zero time is no bound.
func (b bitset) within(times []int64, from, before time.Time) {
	if from.IsZero() && before.IsZero() {
		return
	}
	for row := range b.each {
		if at := times[row]; !from.IsZero() && at < from.UnixMicro() || !before.IsZero() && at >= before.UnixMicro() {
			b.clear(row)
		}
	}
}

// bitmaps returns the bitmaps of those labels that any row has.
func (r *Rows) bitmaps(label func(string) string, of ...string) (found []*roaring.Bitmap) {
	for _, one := range of {
		if number, known := r.labels[label(one)]; known {
			found = append(found, r.bitmap[number])
		}
	}
	return found
}

// live reports whether a row in base has a memory that is live.
func (s *Selection) live(row uint32) bool {
	if expires := s.rows.Expires[row]; expires > 0 && expires <= s.time {
		return false
	}
	if !s.past {
		return true
	}
	return s.rows.From[row] <= s.time && (s.superseded || s.rows.To[row] == 0 || s.rows.To[row] > s.time)
}

// Has reports whether a row is selected.
func (s *Selection) Has(row uint32) bool {
	if s.passing != nil {
		return s.passing.has(row)
	}
	return s.base.has(row) && (!s.mortal || s.live(row))
}

// Narrow reports whether the filter selects by more than liveness. Then Bits, Count and List are cheap.
func (s *Selection) Narrow() bool { return s.passing != nil }

// Bits are the selected rows of a narrow selection, a bit each; nil for any other.
func (s *Selection) Bits() []uint64 { return s.passing }

// Count is the number of rows in a narrow selection.
func (s *Selection) Count() int { return s.passing.count() }

// List returns the selected rows, ascending.
func (s *Selection) List() []uint32 {
	from := s.passing
	if from == nil {
		from = s.base
	}
	list := make([]uint32, 0, from.count())
	for row := range from.each {
		if s.Has(row) {
			list = append(list, row)
		}
	}
	return list
}

// release returns the buffers.
func (s *Selection) release() {
	if s.passing != nil {
		releaseBitset(s.passing)
		s.passing = nil
		s.base = nil
	}
}
