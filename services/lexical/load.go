package lexical

import (
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// loadRows is the number of rows that are handed over at a time while a namespace is loaded.
const loadRows = 128

// fetched is the document of a row, with the bytes that it refers to.
type fetched struct {
	row      uint32
	encoded  []byte
	document document
}

// load fills an empty index. read calls put for each memory, which decodes its document. Another goroutine numbers the terms
// meanwhile, and all processors make the postings in the end, out of the forward index.
func (p *inverted) load(ctx context.Context, read func(put func(id uuid.UUID, encoded []byte)) error) error {
	p.loading = newTallies(p.rows.Len())
	batches, used := make(chan []fetched, 4), make(chan []fetched, 5) // as many as there are
	for range cap(used) {
		used <- make([]fetched, 0, loadRows)
	}
	var numbering errgroup.Group
	numbering.Go(func() (err error) {
		for b := range batches { // also after a panic: the reader must not wait for ever
			if err == nil {
				err = panics.Catch(ctx, nil, "load words", func() error {
					for i := range b {
						p.replace(b[i].row, &b[i].document)
					}
					return nil
				})
			}
			p.loaded.Store(p.bytes)
			used <- b[:0]
		}
		return err
	})
	b, find := <-used, p.rows.InOrder()
	err := read(func(id uuid.UUID, encoded []byte) {
		row, known := find(id)
		if !known || row >= maxRows {
			return
		}
		b = b[:len(b)+1]
		next := &b[len(b)-1]
		next.row, next.encoded = row, append(next.encoded[:0], encoded...)
		if !next.document.decodeOf(ctx, id, next.encoded) {
			b = b[:len(b)-1]
		}
		if len(b) == cap(b) {
			batches <- b
			b = <-used
		}
	})
	batches <- b
	close(batches)
	if panicked := numbering.Wait(); panicked != nil {
		return panicked
	}
	counted := p.loading
	p.loading = nil
	if err != nil {
		return err
	}
	return p.invert(ctx, counted)
}

// tallies count the postings of terms while a namespace is loaded. Each processor will make those of some rows.
type tallies struct {
	rows uint32    // for each processor
	by   [][]tally // by processor and term
}

// tally is what a term has in some rows: how many postings, then the place of the next one in its list, and their bounds.
type tally struct {
	postings                uint32
	maxFrequency, minLength uint16
}

func newTallies(rows int) *tallies {
	pages := (rows + pageRows - 1) / pageRows
	n := max(1, min(runtime.GOMAXPROCS(0), pages))
	return &tallies{rows: uint32(max(1, (pages+n-1)/n) * pageRows), by: make([][]tally, n)}
}

// count counts a posting.
func (t *tallies) count(number, row uint32, tf, length uint16) {
	of := &t.by[row/t.rows]
	for int(number) >= len(*of) {
		*of = append(*of, tally{minLength: math.MaxUint16})
	}
	at := &(*of)[number]
	at.postings++
	at.maxFrequency, at.minLength = max(at.maxFrequency, tf), min(at.minLength, length)
}

// invert makes the postings of all rows, which have been counted. Each processor makes those of its rows.
func (p *inverted) invert(ctx context.Context, counted *tallies) error {
	p.makeRoom(counted)
	var working errgroup.Group
	for worker, places := range counted.by {
		working.Go(func() error {
			return panics.Catch(ctx, nil, "invert words", func() error {
				for row := uint32(worker) * counted.rows; row < min(uint32(worker+1)*counted.rows, uint32(len(p.lengths))); row++ {
					if row%pageRows == 0 { // let go of what was allocated in reserve
						p.forward[row/pageRows].data = slices.Clone(p.forward[row/pageRows].data)
					}
					if !p.has(row) {
						continue
					}
					for number, occurrences := range forwardTerms(p.forwardOf(row)) {
						tf, _ := frequencyIn(occurrences)
						p.terms[number].postings[places[number].postings] = row<<8 | uint32(min(tf, manyTenths))
						places[number].postings++
					}
				}
				return nil
			})
		})
	}
	err := working.Wait()
	p.forget()
	return err
}

// makeRoom gives each term as much room as its postings need, and each processor its places there.
func (p *inverted) makeRoom(counted *tallies) {
	for number := range p.terms {
		t, n := &p.terms[number], uint32(0)
		for _, of := range counted.by {
			if number < len(of) {
				part := &of[number]
				t.maxFrequency, t.minLength = max(t.maxFrequency, part.maxFrequency), min(t.minLength, part.minLength)
				part.postings, n = n, n+part.postings
			}
		}
		if t.postings = make([]uint32, n); n == 0 {
			p.emptied = append(p.emptied, uint32(number))
		}
	}
}
