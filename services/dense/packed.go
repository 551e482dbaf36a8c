package dense

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// A vector is kept as whole numbers of steps, 12 bits each. Its largest component has mostSteps, so cosines are right to some 0.00002.
// Half precision would take a third more memory to tell apart what no model means.

// mostSteps is the largest number of steps.
const mostSteps = 1<<11 - 1

// Components come in packs of packed, in packBytes: the upper eight bits of each, then the lower four, those of the first half of the
// components in the lower halves of the bytes.
const packed, packBytes = 16, 24

// wholePacks is the number of components up to the end of the last pack.
func wholePacks(dimensions int) int { return (dimensions + packed - 1) / packed * packed }

// packedBytes is the size of a vector.
func packedBytes(dimensions int) int { return wholePacks(dimensions) / packed * packBytes }

// hasAVX2 says that the processor has the instructions for comparing vectors. Results are equal to the last bit without them.
var hasAVX2 atomic.Bool // tests change it

func init() { hasAVX2.Store(cpu.X86.HasAVX2) }

// halfScale restores a half-precision number whose bits were moved to single precision: the exponents' biases differ by 112.
const halfScale = 0x1p112

// moved returns a half-precision number / halfScale.
func moved(half uint16) float32 {
	return math.Float32frombits(uint32(int32(int16(half))<<13) & 0x8fffe000)
}

// inSteps rounds half-precision components to steps, with zeros up to a whole pack. squares is the sum of the squared numbers.
func inSteps(to []int16, halves []uint16) (steps []int16, step float32, squares int64) {
	steps = append(to[:0], make([]int16, wholePacks(len(halves)))...)
	fast, largest := 0, [packed]uint16{}
	if hasAVX2.Load() {
		if fast = len(halves) / packed * packed; fast > 0 {
			largestAVX2(&halves[0], fast/packed, &largest)
		}
	}
	most := slices.Max(largest[:])
	for _, half := range halves[fast:] {
		most = max(most, half&0x7fff)
	}
	if most == 0 {
		return steps, 1, 0
	}
	step = float32(moved(most)*halfScale) / mostSteps
	perStep := 1 / step
	if fast > 0 {
		var sums [packed / 2]uint32
		inStepsAVX2(&halves[0], fast/packed, perStep, &steps[0], &sums)
		for _, sum := range sums {
			squares += int64(sum)
		}
	}
	const whole = 3 << 22 // single precision has no fractions from here on, and its last 16 bits are 0
	for i, half := range halves[fast:] {
		n := int16(math.Float32bits(float32(float32(moved(half)*halfScale)*perStep) + whole))
		steps[fast+i] = n
		squares += int64(n) * int64(n)
	}
	return steps, step, squares
}

// pack writes steps.
func pack(to []byte, steps []int16) {
	for ; len(steps) >= packed; steps, to = steps[packed:], to[packBytes:] {
		a, b, c, d := fourSteps(steps), fourSteps(steps[4:]), fourSteps(steps[8:]), fourSteps(steps[12:])
		const last = 15 * each
		binary.LittleEndian.PutUint64(to, lastBytes(a>>4)|lastBytes(b>>4)<<32)
		binary.LittleEndian.PutUint64(to[8:], lastBytes(c>>4)|lastBytes(d>>4)<<32)
		binary.LittleEndian.PutUint64(to[16:], lastBytes(a&last|c&last<<4)|lastBytes(b&last|d&last<<4)<<32)
	}
}

// Constants for four numbers of 16 bits at once: a bit, or the sign, of each.
const (
	each  = 0x0001_0001_0001_0001
	signs = 0x8000_8000_8000_8000
)

func fourSteps(steps []int16) uint64 {
	steps = steps[:4]
	return uint64(uint16(steps[0])) | uint64(uint16(steps[1]))<<16 | uint64(uint16(steps[2]))<<32 | uint64(uint16(steps[3]))<<48
}

// lastBytes returns the last byte of each of four numbers.
func lastBytes(four uint64) uint64 {
	four &= 0xff * each
	four = (four | four>>8) & 0x0000_ffff_0000_ffff
	return (four | four>>16) & 0xffff_ffff
}

// unpack returns the steps of a component.
func unpack(from []byte, component int) int16 {
	of, at := from[component/packed*packBytes:], component%packed
	return int16(int8(of[at]))<<4 | int16(of[packed+at%(packed/2)]>>(at/(packed/2)*4)&15)
}

// prepared scales a query to length 1 and fills its last pack up with zeros.
func prepared(vector []float32) []float32 {
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	scale := 1 / math.Sqrt(squares)
	query := make([]float32, wholePacks(len(vector)))
	for i, x := range vector {
		query[i] = float32(float64(x) * scale)
	}
	return query
}

// product is the inner product of a prepared query and a vector, in its steps.
func product(query []float32, vector []byte) float32 {
	vectors := [4][]byte{vector, vector, vector, vector}
	return products(query, &vectors, &vectors)[0]
}

// products is product of four vectors. Those of the next call may be fetched ahead.
func products(query []float32, vectors, next *[4][]byte) (out [4]float32) {
	switch {
	case len(query) == 0:
	case hasAVX2.Load():
		var at [8]*byte
		for i := range vectors {
			at[i], at[4+i] = &vectors[i][0], &next[i][0]
		}
		productsAVX2(&query[0], &at, len(query)/packed, &out)
	default:
		for i, vector := range vectors {
			out[i] = scalarProduct(query, vector)
		}
	}
	return out
}

// scalarProduct is product in portable Go. Eight sums take turns, and products are rounded before they are added, as the assembly does.
func scalarProduct(query []float32, vector []byte) float32 {
	var s [packed / 2]float32
	for ; len(query) >= packed; query, vector = query[packed:], vector[packBytes:] {
		query, vector := query[:packed], vector[:packBytes]
		for i := range s {
			s[i] += float32(query[i] * float32(int32(int8(vector[i]))<<4|int32(vector[packed+i]&15)))
			s[i] += float32(query[packed/2+i] * float32(int32(int8(vector[packed/2+i]))<<4|int32(vector[packed+i]>>4)))
		}
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
