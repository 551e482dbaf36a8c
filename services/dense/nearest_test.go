package dense

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

func TestKeepBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		candidates := make([]candidate, 1+rng.IntN(40))
		for i := range candidates {
			candidates[i] = candidate{float32(rng.IntN(20)), uint32(i)}
		}
		n := 1 + rng.IntN(len(candidates)+2)
		kept := keepBest(slices.Clone(candidates), n)
		byScore := func(a, b candidate) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.row, b.row)) }
		slices.SortFunc(kept, byScore)
		slices.SortFunc(candidates, byScore)
		want := candidates[:min(n, len(candidates))]
		for len(want) < len(candidates) && candidates[len(want)].score == want[len(want)-1].score {
			want = candidates[:len(want)+1]
		}
		if !slices.Equal(kept, want) {
			t.Fatalf("the best %d are %v, want %v", n, kept, want)
		}
	}
}

// model is what a test knows of a matrix: memories, and vectors as stored.
type model struct {
	*matrix
	memories map[uuid.UUID]replica.Memory
	stored   map[uuid.UUID][]byte
	decode   map[uuid.UUID][]float64 // at length 1, as the matrix has them
}

func newModel(dimensions int) *model {
	m := &matrix{rows: replica.NewRows(), of: stored{dimensions: dimensions, queried: dimensions}}
	return &model{m, map[uuid.UUID]replica.Memory{}, map[uuid.UUID][]byte{}, map[uuid.UUID][]float64{}}
}

func (m *model) put(memory replica.Memory, vector []byte) {
	row := m.rows.Put(memory)
	m.memories[memory.ID] = memory
	halves, err := appendHalves(nil, vector, m.of.dimensions)
	if err != nil {
		panic(err) // made by this test
	}
	m.set(row, halves)
	m.stored[memory.ID] = vector
	components := make([]float64, m.of.dimensions)
	b, at := m.room(row)
	for i := range components {
		components[i] = float64(unpack(b.vector(at, m.of.queried), i)) * float64(b.scales[at])
	}
	m.decode[memory.ID] = components
}

func (m *model) drop(id uuid.UUID) {
	row, _ := m.rows.Row(id)
	m.matrix.Drop(row)
	m.rows.Drop(row)
	delete(m.memories, id)
	m.forget(id)
}

// forget drops the vector alone.
func (m *model) forget(id uuid.UUID) {
	if row, known := m.rows.Row(id); known {
		m.matrix.Drop(row)
	}
	delete(m.stored, id)
	delete(m.decode, id)
}

// exact is what a search has to return.
func (m *model) exact(query []float32, q leg.Query) []leg.Hit {
	var length float64
	for _, x := range query {
		length += float64(x) * float64(x)
	}
	var hits []leg.Hit
	for id, vector := range m.decode {
		memory := m.memories[id]
		if !passes(memory, q.Filter) {
			continue
		}
		var dot float64
		for i, x := range query {
			dot += float64(x) * vector[i]
		}
		score := math.RoundToEven(dot/math.Sqrt(length)*scoreUnits) / scoreUnits
		if q.MinScore != nil && score < *q.MinScore {
			continue
		}
		hits = append(hits, leg.Hit{ID: id, Score: score, Importance: memory.Importance, CreatedAt: time.UnixMicro(memory.Created).UTC()})
	}
	slices.SortFunc(hits, leg.CompareHits)
	return hits[:min(len(hits), q.Depth)]
}

func passes(m replica.Memory, f record.Filter) bool {
	return (m.To == 0 || f.IncludeSuperseded) && (m.Expires == 0 || m.Expires > time.Now().UnixMicro()) &&
		(len(f.TagsAny) == 0 || slices.ContainsFunc(f.TagsAny, func(tag string) bool { return slices.Contains(m.Tags, tag) })) &&
		(f.CreatedFrom.IsZero() || m.Created >= f.CreatedFrom.UnixMicro())
}

func (m *model) search(t testing.TB, query []float32, q leg.Query) []leg.Hit {
	t.Helper()
	selection := m.rows.Select(q.Filter, time.Time{})
	hits, reason, err := comparison{m.matrix, new(scratch), selection, prepared(query), time.Time{}}.nearest(t.Context(), q)
	if err != nil || reason != "" {
		t.Fatalf("got %q, %v", reason, err)
	}
	return hits
}

// recall is the share of wanted hits that are found. Scores are compared, because vectors that differ by a unit of the score
// may be added up in another order.
func recall(t testing.TB, got, want []leg.Hit) (found int) {
	t.Helper()
	if !slices.IsSortedFunc(got, leg.CompareHits) {
		t.Errorf("the hits are out of order: %v", got)
	}
	for _, hit := range got {
		if hit.Score >= want[len(want)-1].Score-2./scoreUnits {
			found++
		}
	}
	return found
}

// memory is a random one. A hundredth has the tag "1%", and so on.
func randomMemory(rng *rand.Rand, i int) replica.Memory {
	var bytes [16]byte
	binary.LittleEndian.PutUint64(bytes[:], rng.Uint64())
	binary.LittleEndian.PutUint64(bytes[8:], rng.Uint64())
	m := replica.Memory{ID: bytes, Importance: float64(rng.IntN(3)) / 2, Created: int64(1 + i), From: int64(1 + i)}
	for tag, of := range map[string]int{"50%": 2, "10%": 10, "1%": 100, "0.1%": 1000} {
		if rng.IntN(of) == 0 {
			m.Tags = append(m.Tags, tag)
		}
	}
	switch rng.IntN(20) {
	case 0:
		m.To = m.From + 1
	case 1:
		m.Expires = 1
	}
	return m
}

// TestRandomHistories: after memories and vectors come, change and go, a search finds what a comparison with all that there
// are finds.
func TestRandomHistories(t *testing.T) {
	const dimensions = 32
	for _, size := range []int{30, 1500, 12_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(size)))
			m := newModel(dimensions)
			centres := make([][]float32, 50)
			for i := range centres {
				centres[i], _ = direction(rng, dimensions, nil)
			}
			var ids []uuid.UUID
			random := func() []byte {
				_, stored := direction(rng, dimensions, centres[rng.IntN(len(centres))])
				return stored
			}
			found, of := 0, 0
			for step := range 8 * size {
				switch at := rng.IntN(10); {
				case len(m.memories) < size || at < 4:
					memory := randomMemory(rng, step)
					if vector := random(); rng.IntN(30) > 0 {
						m.put(memory, vector)
					} else {
						m.rows.Put(memory)
						m.memories[memory.ID] = memory
					}
					ids = append(ids, memory.ID)
				case at < 6: // another's vector, so that there are ties
					if stored, there := m.stored[ids[rng.IntN(len(ids))]]; there {
						m.put(m.memories[ids[rng.IntN(len(ids))]], stored)
					}
				case at < 8:
					i := rng.IntN(len(ids))
					m.drop(ids[i])
					ids[i] = ids[len(ids)-1]
					ids = ids[:len(ids)-1]
				default:
					m.forget(ids[rng.IntN(len(ids))])
				}
				if step%max(1, 8*size/80) > 0 {
					continue
				}
				query, _ := direction(rng, dimensions, centres[rng.IntN(len(centres))])
				q := leg.Query{Depth: 1 + rng.IntN(60)}
				q.Filter = []record.Filter{
					{}, {IncludeSuperseded: true}, {TagsAny: []string{"50%"}}, {TagsAny: []string{"10%"}}, {TagsAny: []string{"1%"}},
					{TagsAny: []string{"0.1%", "1%"}}, {TagsAny: []string{"none"}}, {CreatedFrom: time.UnixMicro(int64(step / 2))},
				}[rng.IntN(8)]
				want := m.exact(query, q)
				if len(want) > 1 && rng.IntN(4) == 0 {
					least := want[len(want)/2].Score - 5./scoreUnits
					q.MinScore = &least
					want = m.exact(query, q)
				}
				got := m.search(t, query, q)
				if len(got) != len(want) && q.MinScore == nil {
					t.Fatalf("got %d hits, want %d", len(got), len(want))
				}
				found += recall(t, got, want)
				of += len(want)
				if m.count != len(m.stored) {
					t.Fatalf("counted %d vectors, want %d", m.count, len(m.stored))
				}
			}
			if got := float64(found) / float64(of); got < .999 || m.rows.Len() <= exactRows && got < 1 {
				t.Errorf("recall %.5f of %d hits, want .999", got, of)
			}
		})
	}
}

// TestTiesBeyondTheLikely: more memories have one vector than are scored exactly, and the most important of them are found.
func TestTiesBeyondTheLikely(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	m := newModel(64)
	query, same := direction(rng, 64, nil)
	for i := range 6000 {
		memory := replica.Memory{ID: uuid.New(), Created: int64(i)}
		if i%1000 == 7 {
			memory.Importance = 1
		}
		m.put(memory, same)
	}
	q := leg.Query{Depth: 7}
	if got, want := m.search(t, query, q), m.exact(query, q); !slices.EqualFunc(got, want, func(a, b leg.Hit) bool { return a.ID == b.ID }) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRowsDoNotMatter: the same memories are found alike whatever rows they have.
func TestRowsDoNotMatter(t *testing.T) {
	const vectors, dimensions = blockRows + 4000, 64
	rng := rand.New(rand.NewPCG(2, 9))
	a, b := newModel(dimensions), newModel(dimensions)
	var put []func(*model)
	for i := range vectors {
		memory := randomMemory(rng, i)
		_, stored := direction(rng, dimensions, nil)
		put = append(put, func(m *model) { m.put(memory, stored) })
	}
	for _, fn := range put {
		fn(a)
	}
	for range vectors + 3000 { // holes in both blocks, some of which are used again
		m := randomMemory(rng, 1)
		_, stored := direction(rng, dimensions, nil)
		b.put(m, stored)
	}
	for id := range b.memories {
		b.drop(id)
	}
	for _, i := range rng.Perm(vectors) {
		put[i](b)
	}
	for range 50 {
		query, _ := direction(rng, dimensions, nil)
		for _, filter := range []record.Filter{{}, {TagsAny: []string{"50%"}}, {TagsAny: []string{"10%"}}} {
			q := leg.Query{Depth: 40, Filter: filter}
			if got, want := a.search(t, query, q), b.search(t, query, q); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	}
}

// TestSampleMisleads: the sampled rows are nearer than all others, so that the bound which they give is too high.
func TestSampleMisleads(t *testing.T) {
	const vectors, dimensions, wanted = 8192, 64, 300
	rng := rand.New(rand.NewPCG(4, 2))
	m := newModel(dimensions)
	query, _ := direction(rng, dimensions, nil)
	for i := range vectors {
		_, stored := direction(rng, dimensions, nil)
		if i/groupRows%sparsest == 0 {
			_, stored = direction(rng, dimensions, query)
		}
		m.put(replica.Memory{ID: uuid.New(), Created: int64(i)}, stored)
	}
	c := comparison{m.matrix, new(scratch), m.rows.Select(record.Filter{}, time.Time{}), prepared(query), time.Time{}}
	if reason, err := c.likely(t.Context(), wanted, vectors); err != nil || reason != "" || len(c.candidates) < wanted {
		t.Errorf("got %d candidates, %q, %v, want %d", len(c.candidates), reason, err, wanted)
	}
	q := leg.Query{Depth: 40}
	if got, want := m.search(t, query, q), m.exact(query, q); recall(t, got, want) < q.Depth {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestProcessorsShareAScan: they find what one finds, each row once, and stop at the deadline or with the context.
func TestProcessorsShareAScan(t *testing.T) {
	m, queries := clusters(2*helped*scanRows, 32)
	groups := m.rows.Len() / groupRows
	scan := func(ctx context.Context, until time.Time, bound float32) (found []candidate, reason string, err error) {
		c := comparison{m, new(scratch), m.rows.Select(record.Filter{}, time.Time{}), prepared(queries[0]), until}
		reason, err = c.scan(ctx, newEstimator(c.query), groups, bound)
		slices.SortFunc(c.candidates, func(a, b candidate) int { return cmp.Compare(a.row, b.row) })
		return c.candidates, reason, err
	}
	processors := runtime.GOMAXPROCS(1)
	all, _, _ := scan(t.Context(), time.Time{}, lowest)
	bound := worst(keepBest(slices.Clone(all), 1000))
	best, _, _ := scan(t.Context(), time.Time{}, bound)
	runtime.GOMAXPROCS(processors)
	if len(all) < m.rows.Len()/2 || len(best) < 1000 || len(best) > 2000 {
		t.Fatalf("one processor found %d of %d rows, and %d of the best 1000", len(all), m.rows.Len(), len(best))
	}
	for i := range 40 {
		bound, want := lowest, all
		if i%2 == 1 {
			bound, want = worst(best), best
		}
		if got, reason, err := scan(t.Context(), time.Time{}, bound); err != nil || reason != "" || !slices.Equal(got, want) {
			t.Fatalf("got %d rows, %q, %v, want %d", len(got), reason, err, len(want))
		}
	}
	late := fmt.Sprintf("only %d of %d vectors were compared in time", scanRows, m.rows.Len())
	if got, reason, err := scan(t.Context(), time.Now().Add(-time.Second), lowest); err != nil || reason != late || len(got) == 0 || len(got) > scanRows {
		t.Errorf("after the deadline: got %d rows, %q, %v, want %q", len(got), reason, err, late)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := scan(cancelled, time.Time{}, lowest); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}

// filters of benchmarks, by the share that passes.
var filters = []string{"", "10%", "1%", "0.1%"}

// clusters are vectors around centres, 40 to each.
func clusters(vectors, dimensions int) (m *matrix, queries [][]float32) {
	rng := rand.New(rand.NewPCG(6, uint64(vectors)))
	m = &matrix{rows: replica.NewRows(), of: stored{dimensions: dimensions, queried: dimensions}}
	centres := make([][]float32, vectors/40)
	for i := range centres {
		centres[i], _ = direction(rng, dimensions, nil)
	}
	for i := range vectors {
		_, stored := direction(rng, dimensions, centres[rng.IntN(len(centres))])
		halves, err := appendHalves(nil, stored, dimensions)
		if err != nil {
			panic(err)
		}
		m.set(m.rows.Put(randomMemory(rng, i)), halves)
	}
	for range 200 {
		query, _ := direction(rng, dimensions, centres[rng.IntN(len(centres))])
		queries = append(queries, query)
	}
	return m, queries
}

// TestLikelyAreNearest: the likely ones hold nearly all of the nearest, under each filter.
func TestLikelyAreNearest(t *testing.T) {
	if testing.Short() {
		t.Skip("compares 20,000 vectors one by one")
	}
	m, queries := clusters(20_000, 256)
	for _, depth := range []int{10, 50} {
		for _, tag := range filters {
			found, of := 0, 0
			for _, query := range queries[:100] {
				q := leg.Query{Depth: depth}
				if tag != "" {
					q.Filter.TagsAny = []string{tag}
				}
				selection := m.rows.Select(q.Filter, time.Time{})
				c := comparison{m, new(scratch), selection, prepared(query), time.Time{}}
				got, _, err := c.nearest(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				c.all()
				if _, _, err := c.scoreLikeliest(t.Context(), 2*len(c.candidates), depth); err != nil {
					t.Fatal(err)
				}
				want := q.Hits(c.rows, slice.Map(c.candidates, candidate.scored))
				if len(got) != len(want) {
					t.Fatalf("got %d hits, want %d", len(got), len(want))
				}
				got, want = got[:min(10, len(got))], want[:min(10, len(want))]
				found += recall(t, got, want)
				of += len(want)
			}
			share := float64(found) / float64(of)
			t.Logf("depth %d, filter %q: recall@10 %.5f", depth, tag, share)
			if share < .999 {
				t.Errorf("depth %d, filter %q: recall@10 %.5f, want .999", depth, tag, share)
			}
		}
	}
}

// BenchmarkNearest searches 20,000 and 200,000 vectors, under filters.
func BenchmarkNearest(b *testing.B) {
	for _, size := range []int{20_000, 200_000} {
		m, queries := clusters(size, 384)
		work := new(scratch)
		for _, tag := range filters {
			b.Run(fmt.Sprintf("%d/%s", size, cmp.Or(tag, "all")), func(b *testing.B) {
				q := leg.Query{Depth: 50}
				if tag != "" {
					q.Filter.TagsAny = []string{tag}
				}
				var spent []time.Duration
				b.ReportAllocs()
				runtime.LockOSThread() // for the thread's processor time, which does not depend on what else runs
				defer runtime.UnlockOSThread()
				for i := 0; b.Loop(); i++ {
					begun := cpuTime()
					selection := m.rows.Select(q.Filter, time.Time{})
					hits, _, err := comparison{m, work, selection, prepared(queries[i%len(queries)]), time.Time{}}.nearest(b.Context(), q)
					if err != nil || len(hits) == 0 {
						b.Fatalf("%d hits, %v", len(hits), err)
					}
					spent = append(spent, cpuTime()-begun)
				}
				slices.Sort(spent)
				b.ReportMetric(float64(spent[len(spent)/2].Microseconds()), "p50-cpu-µs")
				b.ReportMetric(float64(spent[len(spent)*95/100].Microseconds()), "p95-cpu-µs")
			})
		}
	}
}

// cpuTime is the processor time of the thread.
func cpuTime() time.Duration {
	const thread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err) // cannot fail for this thread
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkSet reads and stores vectors, as loading does.
func BenchmarkSet(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := &matrix{rows: replica.NewRows(), of: stored{dimensions: 384, queried: 384}}
	row := m.rows.Put(randomMemory(rng, 1))
	_, stored := direction(rng, 384, nil)
	var halves []uint16
	for b.Loop() {
		var err error
		if halves, err = appendHalves(halves[:0], stored, 384); err != nil {
			b.Fatal(err)
		}
		m.set(row, halves)
	}
}
