package replica

import (
	"bytes"
	"cmp"

	"github.com/tidwall/btree"
)

// threads keep the memories of each thread of a namespace in order: by position, and those without one behind, by creation
// time and id. Superseded memories are left out. A tree finds the place of a memory that comes or goes; searches then follow
// the links between neighbours. A namespace without threads pays for nothing of this.
type threads struct {
	numbers map[string]uint32 // of threads, from 1
	unused  []uint32          // numbers without a thread
	names   []string          // by number; "" for an unused one
	sizes   []int             // memories by number
	places  []place           // by row; rows beyond its length are in no thread
	order   *btree.BTreeG[uint32]
	joined  int // memories with neighbours
}

// place is where a row stands.
type place struct {
	thread        uint32 // 0 for none
	before, after uint32 // neighbouring rows + 1, or 0 for none
	position      int64
}

// NoPosition is behind all positions, as in the index memories_by_thread.
const NoPosition = 1 << 53

// Threaded reports whether any live memory is in a thread.
func (r *Rows) Threaded() bool { return len(r.threads.numbers) > 0 }

// Before returns the row in front of one in its thread.
func (r *Rows) Before(row uint32) (before uint32, there bool) {
	p := r.threads.placeOf(row)
	return p.before - 1, p.before > 0
}

// After returns the row behind one in its thread.
func (r *Rows) After(row uint32) (after uint32, there bool) {
	p := r.threads.placeOf(row)
	return p.after - 1, p.after > 0
}

// HasNeighbours reports whether another row is in a row's thread.
func (r *Rows) HasNeighbours(row uint32) bool {
	p := r.threads.placeOf(row)
	return p.before > 0 || p.after > 0
}

func (t *threads) placeOf(row uint32) place {
	if int(row) >= len(t.places) {
		return place{}
	}
	return t.places[row]
}

// WithNeighbours is the number of memories that have neighbours.
func (r *Rows) WithNeighbours() int { return r.threads.joined }

// join puts a row into a thread. Its id and creation time must be known.
func (r *Rows) join(row uint32, thread string, position int64) {
	t := &r.threads
	if t.order == nil {
		t.numbers, t.names, t.sizes = map[string]uint32{}, make([]string, 1), make([]int, 1)
		t.order = btree.NewBTreeGOptions(r.comesFirst, btree.Options{NoLocks: true})
	}
	if n := int(row) + 1 - len(t.places); n > 0 {
		t.places = append(t.places, make([]place, n)...)
	}
	number, known := t.numbers[thread]
	if !known {
		if last := len(t.unused) - 1; last >= 0 {
			number, t.unused = t.unused[last], t.unused[:last]
		} else {
			number = uint32(len(t.names))
			t.names, t.sizes = append(t.names, ""), append(t.sizes, 0)
		}
		t.numbers[thread], t.names[number] = number, thread
	}
	switch t.sizes[number]++; t.sizes[number] {
	case 1:
	case 2:
		t.joined += 2
	default:
		t.joined++
	}
	p := &t.places[row]
	*p = place{thread: number, position: position}
	if last, some := t.order.Max(); some && r.comesFirst(last, row) { // as most often, above all while a namespace is loaded
		t.order.Load(row)
		if t.places[last].thread == number {
			p.before, t.places[last].after = last+1, row+1
		}
		return
	}
	t.order.Set(row)
	t.order.Ascend(row, func(other uint32) bool {
		if other != row && t.places[other].thread == number {
			p.after, t.places[other].before = other+1, row+1
		}
		return other == row
	})
	t.order.Descend(row, func(other uint32) bool {
		if other != row && t.places[other].thread == number {
			p.before, t.places[other].after = other+1, row+1
		}
		return other == row
	})
}

// leave takes a row out of its thread. It must still have the id and the creation time with which it joined.
func (r *Rows) leave(row uint32) {
	t := &r.threads
	p := t.placeOf(row)
	if p.thread == 0 {
		return
	}
	t.order.Delete(row)
	t.places[row] = place{}
	if p.before > 0 {
		t.places[p.before-1].after = p.after
	}
	if p.after > 0 {
		t.places[p.after-1].before = p.before
	}
	switch t.sizes[p.thread]--; t.sizes[p.thread] {
	case 0: // its name may be private
		delete(t.numbers, t.names[p.thread])
		t.names[p.thread] = ""
		t.unused = append(t.unused, p.thread)
	case 1:
		t.joined -= 2
	default:
		t.joined--
	}
}

// comesFirst is the order of all rows in threads.
func (r *Rows) comesFirst(a, b uint32) bool {
	p, q := &r.threads.places[a], &r.threads.places[b]
	return cmp.Or(cmp.Compare(p.thread, q.thread), cmp.Compare(p.position, q.position), cmp.Compare(r.Created[a], r.Created[b]),
		bytes.Compare(r.IDs[a][:], r.IDs[b][:])) < 0
}

// bytes is about the memory of the threads.
func (t *threads) bytes() int64 {
	n := int64(len(t.places)) * 24
	if t.order != nil {
		n += int64(t.order.Len()) * 8
	}
	for _, name := range t.names {
		n += int64(len(name)) + 64
	}
	return n
}
