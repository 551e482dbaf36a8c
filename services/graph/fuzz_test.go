package graph

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// stream gives out what a fuzzer made, and zeros after its end.
type stream []byte

func (s *stream) byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

func (s *stream) int64() int64 {
	var b [8]byte
	copy(b[:], *s)
	*s = (*s)[min(len(*s), len(b)):]
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// few is one of a few numbers, so that rows refer to each other.
func (s *stream) few() int64 { return int64(s.byte() % 8) }

// concept is one that the query names, or another.
func (s *stream) concept() int64 {
	n := s.few()
	if keys := []string{"heron crane", "heron", "crane", "x"}; int(n) < len(keys) {
		return conceptID(keys[n])
	}
	return n
}

func (s *stream) vector() code { return code("\x00\x7f\x80\x01\xff"[:s.byte()%6]) }

// memory is what tables may have of a memory, whether or not it makes sense.
func (s *stream) memory() memoryRows {
	var m memoryRows
	for range s.byte() % 5 {
		salience := 0.5
		if s.byte()%4 == 0 {
			salience = math.Float64frombits(uint64(s.int64()))
		}
		m.Mentions = append(m.Mentions, mention{s.concept(), salience})
	}
	for range s.byte() % 4 {
		f := factRow{Source: s.concept(), Target: s.concept(), Relation: []string{"", "is", AliasRelation, coMention}[s.byte()%4], Single: s.byte()%2 == 0, Vector: s.vector()}
		if s.byte()%4 == 0 {
			f.From, f.To = s.int64(), s.int64()
		}
		m.Facts = append(m.Facts, f)
	}
	for range s.byte() % 4 {
		m.Links = append(m.Links, authorLink{Target: endKey(fuzzID(s.few()))})
	}
	return m
}

func fuzzID(n int64) uuid.UUID { return uuid.UUID{15: byte(n)} }

// FuzzNetwork makes networks of rows as tables may have them, searches and shows them: nothing panics, whatever the rows are, and all
// that was put in can be taken out.
func FuzzNetwork(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x02\x01\x01\x01\x02\x01\x01\x01\x01\x01\x01\x04\x02\x01\x02\x01\x03\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, rows := stream(data), replica.NewRows()
		n := newNetwork(rows, "", 4)
		drop := func(id uuid.UUID) {
			if row, known := rows.Row(id); known {
				rows.Drop(row)
				n.Drop(row)
			}
		}
		for range 32 {
			if len(in) == 0 {
				break
			}
			switch in.byte() % 6 {
			case 0, 1:
				m := replica.Memory{ID: fuzzID(in.few())}
				if in.byte()%4 == 0 {
					m.From, m.To = in.int64(), in.int64()
				}
				row := rows.Put(m)
				n.put(row, in.memory())
			case 2:
				drop(fuzzID(in.few()))
			case 3:
				rows.Put(replica.Memory{ID: fuzzID(in.few())}) // not indexed yet, or no longer superseded
			case 4:
				n.name(in.concept(), []string{"", "heron crane", "\xff\xfe", "x"}[in.byte()%4], in.vector())
			default:
				text := words("which heron crane is x", maxQueryWords)
				q := leg.Query{Namespace: "n", Text: "which heron crane is x", Depth: 3, Explain: true, Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK}
				if in.byte()%2 == 0 {
					q.AsOf = time.UnixMicro(in.int64())
				}
				n.rank(t.Context(), q, rows.Select(q.Filter, q.AsOf).Has, text, phrases(text, maxNameWords), meaning{vector: in.vector()})
				n.hops(q, rows.Select(q.Filter, q.AsOf).Has, phrases(text, maxNameWords))
			}
		}
		view := &View{n, momentOf(time.Time{}, false), map[int64]string{conceptID("x"): "x"}, func() {}}
		view.Stats()
		view.Triples()
		for _, name := range []string{"x", "heron crane"} {
			view.Concept(name)
			view.Neighbours(name)
			view.Path(name, "heron")
		}
		if err := errors.Join(view.DOT(io.Discard), view.GraphML(io.Discard)); err != nil {
			t.Error(err)
		}
		for i := range int64(8) {
			drop(fuzzID(i))
		}
		if n.indexed != 0 || n.size != 0 || len(n.linkers) != 0 || n.ends.Len() != 0 || len(n.concept) != 0 || n.fuzzy.entries != 0 {
			t.Errorf("got %d memories, %d bytes, %d linkers, %d ends, %d concepts and %d trigrams of an empty network",
				n.indexed, n.size, len(n.linkers), n.ends.Len(), len(n.concept), n.fuzzy.entries)
		}
	})
}
