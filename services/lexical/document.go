package lexical

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/triskele/triskele/services/store/record"
)

// The words of a memory are stored in one row, the forward index, in this format:
//
//   - documentVersion, one byte;
//   - the hashes of the content and the title (hashOf), 8 bytes each, most significant byte first;
//   - each term, in the order of their bytes. It begins with a byte: the number of bytes that it shares with the term before
//     (high half) and the number of the bytes that follow (low half). A half of 15 is continued by an unsigned varint, of
//     the shared bytes first. The bytes themselves follow, and then the term's occurrences.
//   - each occurrence, by position: an unsigned varint of the distance from the one before (or from 0), shifted left by 3; two
//     bits for the field; the lowest bit is set if another occurrence follows.
const (
	documentVersion = 1
	documentHeader  = 1 + 8 + 8
)

// maxPosition bounds positions, so that sums of positions cannot overflow. No memory has so many words.
const maxPosition = 1 << 30

var errDocument = errors.New("the words of a memory are not in a known format")

// field is a part of a memory, by weight. BM25F adds up the occurrences of a term by the weights of their fields: A 1, B 0.4,
// C 0.2 and D 0.1. In this order they are content and title, keywords, tags, and fieldLeast. S. Robertson, H. Zaragoza and M. Taylor, "Simple BM25 extension to multiple weighted fields", CIKM 2004.
type field byte

// fieldLeast is the category, and the stop words of all fields: they can be found, but hardly add to a memory's length.
const fieldLeast field = 3

// fieldTenths are the weights of fields in tenths.
var fieldTenths = [4]int{10, 4, 2, 1}

// occurrence is a term at a position of a memory.
type occurrence struct {
	term     string
	position int
	field    field
}

// occurrences returns a memory's terms with their positions, in the order of terms and then positions.
func (l language) occurrences(r record.Record) []occurrence {
	var found []occurrence
	offset := 0
	for f, text := range []string{r.Content + "\n" + r.Title, strings.Join(r.Keywords, "\n"), strings.Join(r.Tags, "\n"), r.Category} {
		tokens := l.tokens(text)
		for _, t := range tokens {
			in := field(f)
			if t.stop {
				in = fieldLeast
			}
			found = append(found, occurrence{t.term, offset + t.position, in})
		}
		if len(tokens) > 0 {
			offset += tokens[len(tokens)-1].position + 2 // a gap of one position, so that no phrase spans two fields
		}
	}
	slices.SortFunc(found, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.position, b.position), cmp.Compare(a.field, b.field))
	})
	return slices.CompactFunc(found, func(a, b occurrence) bool { return a.term == b.term && a.position == b.position })
}

// encode returns the row of a memory with the given occurrences.
func encode(r record.Record, occurrences []occurrence) []byte {
	row := make([]byte, 0, documentHeader+8*len(occurrences))
	row = append(row, documentVersion)
	row = binary.BigEndian.AppendUint64(row, hashOf(r.Content))
	row = binary.BigEndian.AppendUint64(row, hashOf(r.Title))
	last := ""
	for len(occurrences) > 0 {
		term := occurrences[0].term
		n := 1
		for n < len(occurrences) && occurrences[n].term == term {
			n++
		}
		shared := 0
		for shared < min(len(term), len(last)) && term[shared] == last[shared] {
			shared++
		}
		own := len(term) - shared
		row = append(row, byte(min(shared, 15)<<4|min(own, 15)))
		for _, half := range []int{shared, own} {
			if half >= 15 {
				row = binary.AppendUvarint(row, uint64(half-15))
			}
		}
		row = append(row, term[shared:]...)
		position := 0
		for i, o := range occurrences[:n] {
			more := min(n-1-i, 1)
			row = binary.AppendUvarint(row, uint64((o.position-position)<<3|int(o.field)<<1|more))
			position = o.position
		}
		last, occurrences = term, occurrences[n:]
	}
	return row
}

// document is a decoded row. Its buffers are used again by the next decode.
type document struct {
	content, title uint64 // hashes; 0 without words
	length         int    // in tenths, at most math.MaxUint16
	terms          []documentTerm
	names          []byte
}

type documentTerm struct {
	name        []byte // in names
	occurrences []byte // in the row
	tf          int    // in tenths, at most math.MaxUint16
}

// decode reads a row of the forward index. The document refers to the row's bytes.
func (d *document) decode(row []byte) error {
	d.terms, d.names, d.length = d.terms[:0], d.names[:0], 0
	if len(row) < documentHeader || row[0] != documentVersion {
		return errDocument
	}
	d.content, d.title = binary.BigEndian.Uint64(row[1:]), binary.BigEndian.Uint64(row[9:])
	var last []byte
	for row = row[documentHeader:]; len(row) > 0; {
		shared, own := int(row[0]>>4), int(row[0]&15)
		row = row[1:]
		for _, half := range []*int{&shared, &own} {
			if *half == 15 {
				more, n := binary.Uvarint(row)
				if n <= 0 || more > maxTermBytes {
					return errDocument
				}
				*half, row = 15+int(more), row[n:]
			}
		}
		if shared > len(last) || own == 0 || own > len(row) || shared+own > maxTermBytes || shared < len(last) && row[0] <= last[shared] {
			return errDocument
		}
		begin := len(d.names)
		d.names = append(append(d.names, last[:shared]...), row[:own]...)
		last = d.names[begin:]
		row = row[own:]
		tf, n := frequencyIn(row)
		if n <= 0 {
			return errDocument
		}
		d.terms = append(d.terms, documentTerm{last, row[:n], min(tf, math.MaxUint16)})
		d.length += tf
		row = row[n:]
	}
	d.length = min(d.length, math.MaxUint16)
	return nil
}

// Holds reports whether a stored document, of a namespace with the default settings, has all words of a text.
func Holds(row []byte, text string) (bool, error) {
	var d document
	if err := d.decode(row); err != nil {
		return false, err
	}
	words := DefaultSettings().language().occurrences(record.Record{Content: text})
	for _, word := range words {
		if _, found := slices.BinarySearchFunc(d.terms, word.term, func(t documentTerm, term string) int { return cmp.Compare(string(t.name), term) }); !found {
			return false, nil
		}
	}
	return len(words) > 0, nil
}

// frequencyIn returns a term's frequency in tenths, and the size of its occurrences. The size is 0 if they are damaged.
func frequencyIn(occurrences []byte) (tf, size int) {
	position := uint64(0)
	for first, more := true, uint64(1); more == 1; first = false {
		next, n := binary.Uvarint(occurrences[size:])
		if n <= 0 || next>>3 > maxPosition || !first && next>>3 == 0 {
			return 0, 0
		}
		if position += next >> 3; position > maxPosition {
			return 0, 0
		}
		tf += fieldTenths[next>>1&3]
		size, more = size+n, next&1
	}
	return tf, size
}

// appendPositions appends the positions of valid occurrences.
func appendPositions(to []int32, occurrences []byte) []int32 {
	position := int32(0)
	for more := uint64(1); more == 1; {
		next, n := binary.Uvarint(occurrences)
		occurrences, more = occurrences[n:], next&1
		position += int32(next >> 3)
		to = append(to, position)
	}
	return to
}
