package dense

import (
	"bytes"
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/x448/float16"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/leg"
)

// The memories of a namespace are alike: they share a person, a project, a way of speaking. Directions in which all of them
// lie tell them apart badly, and yet dominate the cosine. So a query's components along the namespace's directions of greatest
// variance are divided by their standard deviation. This is whitening (Su et al., "Whitening Sentence Representations",
// 2021, arXiv 2103.15316), of the query alone: stored vectors stay as they are.
//
//  1. Take a sample of the namespace's vectors, which depends on their ids alone.
//  2. Compute its second moments, drawn towards equal ones if the sample is small.
//  3. Find the directions of greatest variance by power iteration with deflation.
//  4. Do it again in the background when an eighth of the vectors has changed.
const (
	// leastWhitened vectors are needed. A sample has up to mostSampled.
	leastWhitened, mostSampled = 128, 2048
	// directions of greatest variance are divided by the root of their variance + floor, in mean variances. The last keeps its size.
	directions, floor = 128, 0.3
	// evenVectors of equal variance in all directions are added to the sample.
	evenVectors = 200
	// iterations are enough for directions that differ in variance; others may mix.
	iterations = 6
	// renewedAfter is the share of the vectors whose change asks for new directions: 1 / renewedAfter.
	renewedAfter = 8
)

// whitening divides a vector's components along some directions.
type whitening struct {
	changes    int // of the matrix, when the sample was taken
	directions []float32
	factors    []float32 // less 1
}

// of returns a whitened copy of a vector, of unit length.
func (w *whitening) of(vector []float32) []float32 {
	out := slices.Clone(vector)
	n := len(w.directions) / max(len(w.factors), 1)
	for d, factor := range w.factors {
		direction := w.directions[d*n : (d+1)*n]
		along := factor * dot(direction, vector[:n])
		for i, x := range direction {
			out[i] += float32(along * x)
		}
	}
	if out, err := unit(out); out != nil && err == nil {
		return out
	}
	return vector
}

// whiten returns the vector of a query's text for this namespace. A vector that the caller gave stays as it is.
func (m *matrix) whiten(q leg.Query, vector []float32) []float32 {
	if w := m.whitening.Load(); w != nil && m.count >= leastWhitened && len(q.Vector) == 0 {
		return w.of(vector)
	}
	return vector
}

// lacking has directions computed if a query needs them and there are none, or old ones. A channel is closed once there are the first.
func (m *matrix) lacking(ctx context.Context, q leg.Query) (made <-chan struct{}) {
	if m.count < leastWhitened || len(q.Vector) > 0 {
		return nil
	}
	w := m.whitening.Load()
	if w != nil && (m.changes-w.changes)*renewedAfter <= m.count {
		return nil
	}
	if made = m.renew(ctx); w == nil {
		return made
	}
	return nil
}

// renew computes the directions anew, unless that is being done. The channel is closed afterwards.
func (m *matrix) renew(ctx context.Context) <-chan struct{} {
	m.renewing.Lock()
	defer m.renewing.Unlock()
	select {
	case <-m.renewed:
	default:
		if m.renewed != nil {
			return m.renewed
		}
	}
	made := make(chan struct{})
	m.renewed = made
	sample, changes := m.sample(), m.changes
	go func() {
		defer close(made)
		_ = panics.Catch(context.WithoutCancel(ctx), nil, "find a namespace's directions of greatest variance", func() error {
			w := sample.whitening()
			w.changes = changes
			m.whitening.Store(w)
			return nil
		})
	}()
	return made
}

// sample is vectors of unit length, component by component: first the steps of the first dimension, up to a whole pack.
type sample struct {
	dimensions, vectors int
	steps               []int16
	scales              []float32
}

// sample copies a sample of the vectors. Which ones depends on the memories' ids, and not on the order in which they came.
func (m *matrix) sample() sample {
	level := 0
	for m.count>>level > mostSampled {
		level++
	}
	var rows []uint32
	for i := range m.blocks {
		for at, scale := range m.blocks[i].scales {
			row := uint32(i*blockRows + at)
			if scale == 0 {
				continue
			}
			h := fnv.New64a()
			_, _ = h.Write(m.rows.IDs[row][:])
			if h.Sum64()<<(64-level)>>(64-level) == 0 {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b uint32) int { return bytes.Compare(m.rows.IDs[a][:], m.rows.IDs[b][:]) })
	width := wholePacks(len(rows))
	s := sample{dimensions: m.of.queried, vectors: len(rows), steps: make([]int16, m.of.queried*width), scales: make([]float32, len(rows))}
	for v, row := range rows {
		b, at := &m.blocks[row/blockRows], int(row%blockRows)
		s.scales[v] = b.scales[at]
		vector := b.vector(at, m.of.queried)
		for d := range m.of.queried {
			s.steps[d*width+v] = unpack(vector, d)
		}
	}
	return s
}

// moments returns the rows of the matrix of second moments, as multiples of the mean one of a dimension.
func (s sample) moments() (rows []byte, units []float32) {
	n, width := s.dimensions, wholePacks(s.vectors)
	size := packedBytes(width)
	columns, moments, component, sum := make([]byte, n*size), make([]float32, n*n), make([]float32, width), 0.
	for i := range n {
		pack(columns[i*size:(i+1)*size], s.steps[i*width:(i+1)*width])
	}
	for i := range n {
		for v, scale := range s.scales {
			component[v] = float32(s.steps[i*width+v]) * float32(scale*scale)
		}
		for j := i; j < n; j++ {
			moments[i*n+j] = product(component, columns[j*size:(j+1)*size])
		}
		sum += float64(moments[i*n+i])
	}
	even := float64(evenVectors) / float64(s.vectors+evenVectors)
	perUnit := float32((1 - even) * float64(n) / max(sum, math.SmallestNonzeroFloat32))
	size = packedBytes(n)
	rows, units = make([]byte, n*size), make([]float32, n)
	halves, steps := make([]uint16, n), []int16(nil)
	for i := range n {
		moments[i*n+i] += float32(even) / perUnit
		for j := range n {
			halves[j] = float16.Fromfloat32(moments[min(i, j)*n+max(i, j)] * perUnit).Bits()
		}
		steps, units[i], _ = inSteps(steps, halves)
		pack(rows[i*size:(i+1)*size], steps)
	}
	return rows, units
}

// whitening finds the directions of greatest variance and how to divide by it.
func (s sample) whitening() *whitening {
	n := s.dimensions
	moments, units := s.moments()
	size, found := packedBytes(n), min(directions, n/2)
	w := &whitening{directions: make([]float32, 0, found*n)}
	random := rand.New(rand.NewPCG(1, 2)) // any start will do, if it is always the same
	var variances []float64
	direction, image := make([]float32, n), make([]float32, n)
	for range found {
		for i := range direction {
			direction[i] = random.Float32() - 0.5
		}
		variance := 0.
		for range iterations {
			scaled := prepared(direction)
			for i := range image {
				image[i] = units[i] * product(scaled, moments[i*size:(i+1)*size])
			}
			for before := range slices.Chunk(w.directions, n) {
				along := dot(before, image)
				for i, x := range before {
					image[i] -= float32(along * x)
				}
			}
			variance = math.Sqrt(float64(dot(image, image)))
			for i, x := range image {
				direction[i] = float32(float64(x) / max(variance, math.SmallestNonzeroFloat32))
			}
		}
		w.directions = append(w.directions, direction...)
		variances = append(variances, variance)
	}
	for _, variance := range variances {
		w.factors = append(w.factors, float32(math.Sqrt((variances[found-1]+floor)/(max(variance, variances[found-1])+floor))-1))
	}
	return w
}

// dot is an inner product in single precision. Its order of sums is the same on all machines.
func dot(a, b []float32) (sum float32) {
	var s [4]float32
	b = b[:len(a)]
	for len(a) >= 4 && len(b) >= 4 {
		s[0] += float32(a[0] * b[0])
		s[1] += float32(a[1] * b[1])
		s[2] += float32(a[2] * b[2])
		s[3] += float32(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	for i, x := range a {
		s[0] += float32(x * b[i])
	}
	return s[0] + s[1] + s[2] + s[3]
}
