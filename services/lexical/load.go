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

const (
	// loadRows is the number of rows that are handed over at a time while a namespace is loaded.
	loadRows = 512
	// sharedPostings bounds the lists that share an array after loading. Most terms have few postings.
	sharedPostings, sharedArray = 64, 1 << 16
)

// unread are rows of the forward index that have been read, but not decoded.
type unread struct {
	ids  []uuid.UUID
	ends []int // of the rows in data
	data []byte
}

// load fills an empty index. read calls put for each memory. Another goroutine numbers the terms meanwhile, and all processors
// make the postings in the end, out of the forward index.
func (p *inverted) load(ctx context.Context, read func(put func(id uuid.UUID, row []byte)) error) error {
	p.loading = true
	batches, used := make(chan *unread, 4), make(chan *unread, 5) // as many as there are
	for range cap(used) {
		used <- &unread{}
	}
	var numbering errgroup.Group
	numbering.Go(func() error {
		err := panics.Catch(ctx, nil, "load words", func() error {
			for b := range batches {
				from := 0
				for i, id := range b.ids {
					p.put(ctx, id, b.data[from:b.ends[i]])
					from = b.ends[i]
				}
				p.loaded.Store(p.bytes)
				b.ids, b.ends, b.data = b.ids[:0], b.ends[:0], b.data[:0]
				used <- b
			}
			return nil
		})
		for range batches { // after a panic the reader must not wait for ever
			used <- &unread{}
		}
		return err
	})
	b := <-used
	err := read(func(id uuid.UUID, row []byte) {
		b.data = append(b.data, row...)
		b.ids, b.ends = append(b.ids, id), append(b.ends, len(b.data))
		if len(b.ids) == loadRows {
			batches <- b
			b = <-used
		}
	})
	batches <- b
	close(batches)
	if panicked := numbering.Wait(); panicked != nil {
		return panicked
	}
	p.loading = false
	if err != nil {
		return err
	}
	return p.invert(ctx)
}

// tally counts the postings of a term in some rows, with their bounds. It is then the place for the next posting.
type tally struct {
	postings                uint32
	maxFrequency, minLength uint16
}

// invert makes the postings of all rows. Each processor counts those of its rows, then there is room, and then it fills in its own.
func (p *inverted) invert(ctx context.Context) error {
	tallies := make([][]tally, min(runtime.GOMAXPROCS(0), len(p.forward)))
	each := func(fn func(of []tally, number, row uint32, tf int)) error {
		var working errgroup.Group
		for worker, of := range tallies {
			working.Go(func() error {
				return panics.Catch(ctx, nil, "invert words", func() error {
					end := uint32(min((worker+1)*len(p.forward)/len(tallies)*pageRows, len(p.lengths)))
					for row := uint32(worker * len(p.forward) / len(tallies) * pageRows); row < end; row++ {
						if !p.has(row) {
							continue
						}
						for number, occurrences := range forwardTerms(p.forwardOf(row)) {
							tf, _ := frequencyIn(occurrences)
							fn(of, number, row, tf)
						}
					}
					return nil
				})
			})
		}
		return working.Wait()
	}
	for worker := range tallies {
		tallies[worker] = make([]tally, len(p.terms))
	}
	if err := each(func(of []tally, number, row uint32, tf int) {
		t := &of[number]
		if t.postings == 0 {
			t.minLength = math.MaxUint16
		}
		t.postings++
		t.maxFrequency, t.minLength = max(t.maxFrequency, uint16(min(tf, math.MaxUint16))), min(t.minLength, p.lengths[row])
	}); err != nil {
		return err
	}
	p.makeRoom(tallies)
	if err := each(func(of []tally, number, row uint32, tf int) {
		t := &of[number]
		p.terms[number].postings[t.postings] = row<<8 | uint32(min(tf, manyTenths))
		t.postings++
	}); err != nil {
		return err
	}
	for i := range p.forward {
		p.forward[i].data = slices.Clone(p.forward[i].data)
	}
	p.forget()
	return nil
}

// makeRoom gives each term as much room as its postings need.
func (p *inverted) makeRoom(tallies [][]tally) {
	var array []uint32
	for number := range p.terms {
		t := &p.terms[number]
		n := uint32(0)
		for _, of := range tallies {
			own := &of[number]
			if own.postings > 0 {
				t.maxFrequency, t.minLength = max(t.maxFrequency, own.maxFrequency), min(t.minLength, own.minLength)
			}
			n, own.postings = n+own.postings, n
		}
		p.bytes += 5 * int64(n)
		switch {
		case n == 0:
			p.emptied = append(p.emptied, uint32(number))
		case n > sharedPostings:
			t.postings = make([]uint32, n)
		default:
			if len(array)+int(n) > cap(array) {
				array = make([]uint32, 0, sharedArray)
			}
			array = array[:len(array)+int(n)]
			t.postings = array[len(array)-int(n) : len(array) : len(array)]
		}
	}
}
