package lexical

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/replica"
)

// inverted is a replica.Part: the inverted index of a namespace, with the forward index that it was made from.
type inverted struct {
	rows     *replica.Rows
	settings Settings

	// numbers of terms are found by hashes of their names, so that loading a namespace looks at no names that are known. That two of a
	// million names have one hash has a probability of about one in 40 million.
	numbers map[uint64]uint32
	seed    maphash.Seed
	terms   []term   // by number
	letters []uint32 // letterSet by number
	unused  []uint32 // numbers without a term
	emptied []uint32 // numbers whose last posting has gone
	sorted  []uint32 // all numbers in the order of terms, while Settings.Prefix is set

	forward   []page             // by row / pageRows
	many      map[manyKey]uint16 // frequencies in tenths that postings have no room for
	hashes    [][2]uint64        // of content and title, by row
	lengths   []uint16           // in tenths, by row
	documents int64              // rows with a document
	length    int64              // sum of lengths
	bytes     int64

	only    *wanted      // terms that are kept; nil for all
	loading *tallies     // while loading: there are no postings yet
	loaded  atomic.Int64 // bytes so far, while loading
	decoded document
	keys    []uint64 // scratch
	encoded []byte   // scratch
}

// manyKey is a term, by its number, in a row.
type manyKey struct{ number, row uint32 }

// term is a term of the dictionary with its postings, in the order of rows. A posting is the row, shifted left by 8, and the
// term's frequency in tenths, or manyTenths for that and any higher frequency: inverted.many has it.
type term struct {
	name     string
	postings []uint32
	// Bounds of its postings, for pruning. They stay when postings go.
	maxFrequency, minLength uint16
}

const (
	manyTenths = 255
	// maxRows is the number of rows that postings can name.
	maxRows = 1 << 24
	// termBytes is about the memory of a term without its name and its postings, postingBytes that of a posting with some room to
	// grow, and manyBytes that of an entry in inverted.many.
	termBytes, postingBytes, manyBytes = 96, 5, 24
)

func newInverted(rows *replica.Rows) *inverted {
	return &inverted{rows: rows, settings: DefaultSettings(), numbers: map[uint64]uint32{}, many: map[manyKey]uint16{}, seed: maphash.MakeSeed()}
}

// Bytes implements replica.Part.
func (p *inverted) Bytes() int64 {
	if p.loading != nil {
		return p.loaded.Load()
	}
	return p.bytes
}

// Read implements replica.Part. It also reads the namespace's settings.
func (p *inverted) Read(ctx context.Context, tx replica.Tx, namespace string, ids []uuid.UUID) (apply func(), err error) {
	if p.rows.Len() > maxRows {
		return nil, replica.ErrTooLarge
	}
	settings := DefaultSettings()
	if err := tx.Each(ctx, selectSettings, []any{namespace}, settings.targets(), func() error { return nil }); err != nil {
		return nil, err
	}
	var id uuid.UUID
	var row replica.Raw
	targets, documents := []any{&id, &row}, `SELECT memory_id, terms FROM `+tx.Dialect("lexical.terms", "lexical_documents")+` WHERE namespace = $1`
	if ids == nil {
		p.expect(settings)
		err := p.load(ctx, func(put func(uuid.UUID, []byte)) error {
			return tx.Each(ctx, documents, []any{namespace}, targets, func() error {
				put(id, row)
				return nil
			})
		})
		p.set(settings)
		return nil, err
	}
	read := make(map[uuid.UUID][]byte, len(ids))
	err = tx.Each(ctx, documents+` AND memory_id = ANY($2::uuid[])`, []any{namespace, ids}, targets, func() error {
		read[id] = bytes.Clone(row)
		return nil
	})
	return func() {
		p.set(settings)
		replica.Replace(p.rows, ids, read, func(row uint32, encoded []byte) { p.put(ctx, row, encoded) }, p.Drop)
	}, err
}

// expect notes the words of the question. No others are then kept, but they count in lengths.
func (p *inverted) expect(s Settings) {
	if p.rows.Question == "" {
		return
	}
	q := understand(p.rows.Question, s)
	p.only = &wanted{map[string]bool{}, q.prefix, q.misspelt()}
	for _, t := range s.language().tokens(p.rows.Question) {
		p.only.terms[t.term] = true
	}
	for _, v := range q.variants {
		for _, term := range v.form {
			p.only.terms[term] = true
		}
	}
}

// put replaces the document of a row. With a damaged one the memory has none.
func (p *inverted) put(ctx context.Context, row uint32, encoded []byte) {
	if row < maxRows && p.decoded.decodeOf(ctx, p.rows.IDs[row], encoded) {
		p.replace(row, &p.decoded)
	} else {
		p.Drop(row)
	}
}

// decodeOf decodes the document of a memory. It logs a damaged one and returns false.
func (d *document) decodeOf(ctx context.Context, id uuid.UUID, encoded []byte) bool {
	err := d.decode(encoded)
	if err != nil {
		slog.WarnContext(ctx, "a memory is missing in the lexical index", "memory", id.String(), "error", err.Error())
	}
	return err == nil
}

// set takes the namespace's settings over.
func (p *inverted) set(s Settings) {
	p.settings = s
	switch {
	case !s.Prefix:
		p.sorted = nil
	case p.sorted == nil:
		p.sorted = slices.AppendSeq(make([]uint32, 0, len(p.numbers)), maps.Values(p.numbers))
		slices.SortFunc(p.sorted, func(a, b uint32) int { return cmp.Compare(p.terms[a].name, p.terms[b].name) })
	}
}

// Drop implements replica.Part.
func (p *inverted) Drop(row uint32) {
	p.remove(row)
	p.forget()
}

// replace replaces the document of a row.
func (p *inverted) replace(row uint32, d *document) {
	p.keys = p.keys[:0]
	for i, t := range d.terms {
		if p.only == nil || p.only.has(string(t.name)) {
			p.keys = append(p.keys, uint64(p.number(t.name))<<32|uint64(i))
		}
	}
	slices.Sort(p.keys)
	p.encoded = binary.AppendUvarint(p.encoded[:0], uint64(len(p.keys)))
	last := uint64(0)
	for _, key := range p.keys {
		p.encoded = binary.AppendUvarint(p.encoded, key>>32-last)
		p.encoded = append(p.encoded, d.terms[uint32(key)].occurrences...)
		last = key >> 32
	}
	if !p.grow(row) && p.hashes[row] == [2]uint64{d.content, d.title} && bytes.Equal(p.forwardOf(row), p.encoded) {
		return
	}
	p.remove(row)
	for _, key := range p.keys {
		number, tf := uint32(key>>32), d.terms[uint32(key)].tf
		if tf >= manyTenths {
			p.many[manyKey{number, row}] = uint16(tf)
			p.bytes += manyBytes
		}
		if p.loading != nil {
			p.loading.count(number, row, uint16(tf), uint16(d.length))
		} else {
			p.insert(number, row, tf, d.length)
		}
	}
	p.forward[row/pageRows].put(row%pageRows, p.encoded)
	p.bytes += int64(len(p.encoded) + postingBytes*len(p.keys))
	p.hashes[row], p.lengths[row] = [2]uint64{d.content, d.title}, uint16(d.length)
	p.documents++
	p.length += int64(d.length)
	p.forget()
}

// grow makes room for a row. It reports whether the row had none.
func (p *inverted) grow(row uint32) bool {
	n := int(row) + 1
	if n <= len(p.lengths) {
		return false
	}
	p.bytes += int64(n-len(p.lengths)) * (16 + 2 + 4)
	p.lengths = append(p.lengths, make([]uint16, n-len(p.lengths))...)
	p.hashes = append(p.hashes, make([][2]uint64, n-len(p.hashes))...)
	pages := (n + pageRows - 1) / pageRows
	p.forward = append(p.forward, make([]page, pages-len(p.forward))...)
	return true
}

// known returns the number of a term, if it has one.
func (p *inverted) known(name string) (number uint32, known bool) {
	number, known = p.numbers[maphash.String(p.seed, name)]
	return number, known
}

// number returns the number of a term, which gets one if it has none.
func (p *inverted) number(name []byte) uint32 {
	hash := maphash.Bytes(p.seed, name)
	number, known := p.numbers[hash]
	if known {
		return number
	}
	number = uint32(len(p.terms))
	if last := len(p.unused) - 1; last >= 0 {
		number, p.unused = p.unused[last], p.unused[:last]
	} else {
		p.terms, p.letters = append(p.terms, term{}), append(p.letters, 0)
	}
	t := &p.terms[number]
	*t = term{name: string(name), minLength: math.MaxUint16}
	p.letters[number] = letterSet(t.name)
	p.numbers[hash] = number
	p.bytes += termBytes + int64(len(name))
	if p.sorted != nil {
		p.sorted = slices.Insert(p.sorted, p.place(t.name), number)
	}
	return number
}

// place returns the place of a term in sorted.
func (p *inverted) place(name string) int {
	at, _ := slices.BinarySearchFunc(p.sorted, name, func(number uint32, name string) int { return cmp.Compare(p.terms[number].name, name) })
	return at
}

// forget removes the terms without postings. Their names may be private.
func (p *inverted) forget() {
	for _, number := range p.emptied {
		t := &p.terms[number]
		if len(t.postings) > 0 || t.name == "" {
			continue
		}
		if p.sorted != nil {
			at := p.place(t.name)
			p.sorted = slices.Delete(p.sorted, at, at+1)
		}
		delete(p.numbers, maphash.String(p.seed, t.name))
		p.bytes -= termBytes + int64(len(t.name))
		*t = term{}
		p.unused = append(p.unused, number)
	}
	p.emptied = p.emptied[:0]
}

// insert adds a posting.
func (p *inverted) insert(number, row uint32, tf, length int) {
	t := &p.terms[number]
	t.maxFrequency, t.minLength = max(t.maxFrequency, uint16(tf)), min(t.minLength, uint16(length))
	posting := row<<8 | uint32(min(tf, manyTenths))
	if n := len(t.postings); n == 0 || t.postings[n-1] < posting {
		t.postings = append(t.postings, posting)
		return
	}
	at, _ := slices.BinarySearch(t.postings, row<<8)
	t.postings = slices.Insert(t.postings, at, posting)
}

// remove removes a row's document, but not the terms that it leaves without postings.
func (p *inverted) remove(row uint32) {
	if !p.has(row) {
		return
	}
	for number := range forwardTerms(p.forwardOf(row)) {
		t := &p.terms[number]
		at, _ := slices.BinarySearch(t.postings, row<<8)
		if t.postings[at]&manyTenths == manyTenths {
			delete(p.many, manyKey{number, row})
			p.bytes -= manyBytes
		}
		p.bytes -= postingBytes
		if t.postings = slices.Delete(t.postings, at, at+1); len(t.postings) == 0 {
			p.emptied = append(p.emptied, number)
		}
	}
	p.bytes -= int64(len(p.forwardOf(row)))
	p.forward[row/pageRows].put(row%pageRows, nil)
	p.documents--
	p.length -= int64(p.lengths[row])
	p.hashes[row], p.lengths[row] = [2]uint64{}, 0
}

// pageRows is the number of rows in a page.
const pageRows = 64

// page has the forward index of some rows: the number of a row's terms, and for each of them the distance from the number of
// the term before, and its occurrences as in a document. A row without a document is empty.
type page struct {
	data []byte
	ends [pageRows]uint32
}

func (p *page) of(row uint32) []byte {
	from := uint32(0)
	if row > 0 {
		from = p.ends[row-1]
	}
	return p.data[from:p.ends[row]]
}

func (p *page) put(row uint32, data []byte) {
	before := len(p.of(row))
	end := int(p.ends[row])
	p.data = slices.Replace(p.data, end-before, end, data...)
	for i := row; i < pageRows; i++ {
		p.ends[i] += uint32(len(data) - before)
	}
}

func (p *inverted) forwardOf(row uint32) []byte { return p.forward[row/pageRows].of(row % pageRows) }

// has reports whether a row has a document.
func (p *inverted) has(row uint32) bool {
	return int(row) < len(p.lengths) && len(p.forwardOf(row)) > 0
}

// forwardTerms yields the number of each term of a row, with its occurrences.
func forwardTerms(data []byte) iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		terms, n := binary.Uvarint(data)
		data = data[n:]
		number := uint64(0)
		for ; terms > 0; terms-- {
			next, n := binary.Uvarint(data)
			number, data = number+next, data[n:]
			size := occurrencesSize(data)
			if !yield(uint32(number), data[:size]) {
				return
			}
			data = data[size:]
		}
	}
}

// occurrencesSize returns the size of valid occurrences.
func occurrencesSize(data []byte) int {
	for i := 0; ; {
		more := data[i] & 1
		for data[i] >= 0x80 {
			i++
		}
		if i++; more == 0 {
			return i
		}
	}
}
