package replica

import (
	"hash/maphash"
	"math/bits"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
)

// Rows are the memories of a namespace by row number: what filters and orders hits. A memory keeps its row as long as it
// exists; the row of a deleted memory is used again. The slices have one length, Len. Legs read them and never change them.
type Rows struct {
	IDs        []uuid.UUID
	Importance []float64
	Created    []int64 // microseconds since 1970, as all times here
	From       []int64 // when the content began to hold: when it occurred, else when it was created
	To         []int64 // when another memory superseded it; 0 if none did
	Expires    []int64 // 0 means never
	// Question is all that will be asked, unless it is empty. A part may load no more than answers to that need.
	Question string

	byID    *RowsBy[uuid.UUID]
	free    []uint32
	present bitset // rows in use
	current bitset // of these, not superseded
	mortal  int    // rows that expire
	threads threads

	// A label is a tag, a category, or a metadata value of a key that a filter has asked for.
	labels   map[string]uint32
	names    []string          // by label; "" for an unused one
	bitmap   []*roaring.Bitmap // by label; nil for an unused one
	unused   []uint32          // labels
	of       []uint32          // by row: the place of its first label in labelled
	labelled []labelOf         // a list for each row; that at 0 has places without a label
	keys     map[string]bool   // metadata keys that filters have asked for
}

// labelOf is a label of a row, and the place of the row's next one, or 0.
type labelOf struct{ label, next uint32 }

// Memory is what the database has of a memory for Rows.
type Memory struct {
	ID         uuid.UUID
	Importance float64
	Created    int64
	From, To   int64
	Expires    int64
	Tags       []string
	Category   string
	Thread     string   // "" for none
	Position   int64    // in the thread, or NoPosition
	Metadata   []string // labels of metadataLabel, of keys that filters have asked for
}

// NewRows returns the rows of an empty namespace. Only followers and tests change rows.
func NewRows() *Rows {
	r := &Rows{labels: map[string]uint32{}, labelled: make([]labelOf, 1), keys: map[string]bool{}}
	seed := maphash.MakeSeed()
	r.byID = NewRowsBy(func(row uint32) uuid.UUID { return r.IDs[row] }, func(id uuid.UUID) uint64 { return maphash.Bytes(seed, id[:]) })
	return r
}

// Len is the number of rows, including those of deleted memories.
func (r *Rows) Len() int { return len(r.IDs) }

// Count is the number of memories.
func (r *Rows) Count() int { return r.byID.Len() }

// Row returns the row of a memory.
func (r *Rows) Row(id uuid.UUID) (row uint32, known bool) { return r.byID.Find(id) }

// InOrder returns a Row for callers that ask for memories in the order of rows, nearly, and for some repeatedly. It hardly ever
// looks into the map.
func (r *Rows) InOrder() func(id uuid.UUID) (row uint32, known bool) {
	last := uint32(0)
	return func(id uuid.UUID) (row uint32, known bool) {
		for row = last; row <= last+1 && int(row) < len(r.IDs); row++ {
			if r.IDs[row] == id {
				last = row
				return row, true
			}
		}
		if row, known = r.Row(id); known {
			last = row
		}
		return row, known
	}
}

// Put adds or replaces a memory and returns its row.
func (r *Rows) Put(m Memory) uint32 {
	row, known := r.byID.Find(m.ID)
	switch last := len(r.free) - 1; {
	case known:
		r.unlabel(row)
		r.leave(row)
		if r.Expires[row] > 0 {
			r.mortal--
		}
	case last >= 0:
		row, r.free = r.free[last], r.free[:last]
	default:
		row = uint32(len(r.IDs))
		r.IDs, r.Importance, r.Created = append(r.IDs, uuid.Nil), append(r.Importance, 0), append(r.Created, 0)
		r.From, r.To, r.Expires = append(r.From, 0), append(r.To, 0), append(r.Expires, 0)
		r.of = append(r.of, 0)
		if row%64 == 0 {
			r.present, r.current = append(r.present, 0), append(r.current, 0)
		}
	}
	r.IDs[row], r.Importance[row], r.Created[row], r.From[row], r.To[row], r.Expires[row] = m.ID, m.Importance, m.Created, m.From, m.To, m.Expires
	r.byID.Add(row)
	r.present.set(row)
	if r.current.clear(row); m.To == 0 {
		r.current.set(row)
	}
	if m.Expires > 0 {
		r.mortal++
	}
	if m.Thread != "" && m.To == 0 {
		r.join(row, m.Thread, m.Position)
	}
	for _, tag := range m.Tags {
		r.label(row, tagLabel(tag))
	}
	r.label(row, categoryLabel(m.Category))
	for _, name := range m.Metadata {
		r.label(row, name)
	}
	return row
}

// Drop removes the memory of a row.
func (r *Rows) Drop(row uint32) {
	r.unlabel(row)
	r.leave(row)
	if r.Expires[row] > 0 {
		r.mortal--
	}
	r.byID.Remove(r.IDs[row])
	r.IDs[row] = uuid.Nil
	r.present.clear(row)
	r.current.clear(row)
	r.free = append(r.free, row)
}

// Replace applies what was read of changed memories: put gets the row of each and what was found of it, and drop the rows of those of which
// nothing was found.
func Replace[T any](r *Rows, ids []uuid.UUID, found map[uuid.UUID]T, put func(row uint32, of T), drop func(row uint32)) {
	for _, id := range ids {
		row, known := r.Row(id)
		switch of, there := found[id]; {
		case !known:
		case there:
			put(row, of)
		default:
			drop(row)
		}
	}
}

func (r *Rows) label(row uint32, name string) {
	label, known := r.labels[name]
	if !known {
		if last := len(r.unused) - 1; last >= 0 {
			label, r.unused = r.unused[last], r.unused[:last]
		} else {
			label = uint32(len(r.bitmap))
			r.bitmap, r.names = append(r.bitmap, nil), append(r.names, "")
		}
		r.labels[name], r.names[label], r.bitmap[label] = label, name, roaring.New()
	}
	if r.bitmap[label].CheckedAdd(row) {
		at := r.labelled[0].next
		if at == 0 {
			at, r.labelled = uint32(len(r.labelled)), append(r.labelled, labelOf{})
		} else {
			r.labelled[0].next = r.labelled[at].next
		}
		r.labelled[at], r.of[row] = labelOf{label, r.of[row]}, at
	}
}

// unlabel removes a row's labels.
func (r *Rows) unlabel(row uint32) {
	r.unlist(row, func(label uint32) bool {
		if r.bitmap[label].Remove(row); r.bitmap[label].IsEmpty() {
			r.forgetLabel(label)
		}
		return true
	})
}

// unlist removes labels from the list of a row.
func (r *Rows) unlist(row uint32, gone func(label uint32) bool) {
	for link := &r.of[row]; *link != 0; {
		at := *link
		of := &r.labelled[at]
		if !gone(of.label) {
			link = &of.next
			continue
		}
		*link = of.next
		*of, r.labelled[0].next = labelOf{next: r.labelled[0].next}, at
	}
}

// forgetLabel removes a label with its name, which may be private.
func (r *Rows) forgetLabel(label uint32) {
	delete(r.labels, r.names[label])
	r.names[label], r.bitmap[label] = "", nil
	r.unused = append(r.unused, label)
}

// Names of labels.
func tagLabel(tag string) string           { return "t" + tag }
func categoryLabel(category string) string { return "c" + category }

// metadataLabel names a metadata value, which is a string, a number or a boolean; "" for any other.
func metadataLabel(key string, value any) string {
	name := "m" + strconv.Itoa(len(key)) + ":" + key
	switch v := value.(type) {
	case string:
		return name + "s" + v
	case bool:
		return name + "b" + strconv.FormatBool(v)
	case float64:
		return name + "n" + strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// bytes is about the memory of the rows.
func (r *Rows) bytes() int64 {
	n := int64(len(r.IDs))*(16+5*8+4) + 8*int64(len(r.labelled)) + r.byID.bytes() + r.threads.bytes()
	for label, b := range r.bitmap {
		if b != nil {
			n += int64(b.GetSizeInBytes()) + int64(len(r.names[label])) + 160
		}
	}
	return n
}

// bitset is a set of rows, one bit each.
type bitset []uint64

func (b bitset) has(row uint32) bool { return int(row>>6) < len(b) && b[row>>6]>>(row&63)&1 == 1 }
func (b bitset) set(row uint32)      { b[row>>6] |= 1 << (row & 63) }
func (b bitset) clear(row uint32)    { b[row>>6] &^= 1 << (row & 63) }

func (b bitset) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// each yields the rows in the set, ascending. A row may be removed when it is yielded.
func (b bitset) each(yield func(row uint32) bool) {
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(i<<6 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// and keeps the rows that are also in the union of bitmaps. scratch has the length of b.
func (b bitset) and(scratch bitset, union []*roaring.Bitmap) {
	clear(scratch)
	switch len(union) {
	case 0:
	case 1:
		union[0].WriteDenseTo(scratch)
	default:
		roaring.FastOr(union...).WriteDenseTo(scratch)
	}
	for i := range b {
		b[i] &= scratch[i]
	}
}
