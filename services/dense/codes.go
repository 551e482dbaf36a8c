package dense

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A code quantizes each component of a vector to two bits. The first bits are signs: vectors with few differing signs have
// similar directions (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002).
// With both bits, a component is -3/2, -1/2, 1/2 or 3/2 times the vector's span.

// Codes of groupRows consecutive rows are a group, so that a comparison of a few components takes one instruction for all of
// them (André, Kermarrec and Le Scouarnec, "Cache Locality is not Enough", VLDB 2015). A column has a byte for each row: the bits
// of 8 components. Columns of first bits and of second bits alternate.
const groupRows = 32

// codeColumns is the number of columns of first bits, or of second bits. It is a multiple of 4.
func codeColumns(dimensions int) int { return (dimensions + 31) / 32 * 4 }

// groupBytes is the size of a group.
func groupBytes(dimensions int) int { return 2 * groupRows * codeColumns(dimensions) }

// code writes a vector's code into its row of a group and returns its span. The span is fitted to the first queried components, so
// that estimates are unbiased (the scaling of Gao and Long, "RaBitQ", SIGMOD 2024).
func code(group []byte, row int, halves []uint16, queried int) (span float32) {
	squares, sizes := sums(halves[:queried], 0)
	large := leastHalf(math.Sqrt(squares / float64(queried)))
	_, larges := sums(halves[:queried], large)
	group = group[row:]
	for at := 0; at < len(group); at += 2 * groupRows {
		var eight [8]uint16
		n := copy(eight[:], halves)
		halves = halves[n:]
		inside := byte(0xff) >> (8 - n)
		low, high := fourHalves(eight[:4]), fourHalves(eight[4:])
		positive := ^(signsOf(low) | signsOf(high)<<4)
		isLarge := signsOf((low|signs)-uint64(large)*each) | signsOf((high|signs)-uint64(large)*each)<<4
		group[at], group[at+groupRows] = positive&inside, ^(positive^isLarge)&inside
	}
	if product := sizes/2 + larges; product > 0 {
		span = float32(squares / product * halfScale)
	}
	return span
}

// Constants for four half-precision numbers at once: a bit, or the sign, of each.
const (
	each  = 0x0001_0001_0001_0001
	signs = 0x8000_8000_8000_8000
)

func fourHalves(h []uint16) uint64 {
	return uint64(h[0]) | uint64(h[1])<<16 | uint64(h[2])<<32 | uint64(h[3])<<48
}

// signsOf returns the signs of four half-precision numbers, that of the first one lowest.
func signsOf(four uint64) byte {
	return byte((four & signs >> 15) * (1<<48 | 1<<33 | 1<<18 | 1<<3) >> 48 & 15)
}

// sums adds up the squares and the sizes of components / halfScale that are no less than a positive half-precision number.
func sums(halves []uint16, least uint32) (squares, sizes float64) {
	var s, t [4]float64 // additions that need not wait for each other
	for ; len(halves) >= 4; halves = halves[4:] {
		four := halves[:4]
		x0, x1, x2, x3 := atLeast(four[0], least), atLeast(four[1], least), atLeast(four[2], least), atLeast(four[3], least)
		s[0], s[1], s[2], s[3] = s[0]+x0*x0, s[1]+x1*x1, s[2]+x2*x2, s[3]+x3*x3
		t[0], t[1], t[2], t[3] = t[0]+x0, t[1]+x1, t[2]+x2, t[3]+x3
	}
	for _, half := range halves {
		x := atLeast(half, least)
		s[0], t[0] = s[0]+x*x, t[0]+x
	}
	return (s[0] + s[1]) + (s[2] + s[3]), (t[0] + t[1]) + (t[2] + t[3])
}

// atLeast returns the size of a component / halfScale, or 0 if it is less than a positive half-precision number.
func atLeast(half uint16, least uint32) float64 {
	size := uint32(half & 0x7fff)
	return float64(math.Float32frombits(size << 13 & -((least - 1 - size) >> 31)))
}

// leastHalf returns the least positive half-precision number that is, divided by halfScale, no less than a size.
func leastHalf(size float64) uint32 {
	half := math.Float32bits(float32(size)) >> 13
	for half > 0 && float64(math.Float32frombits((half-1)<<13)) >= size {
		half--
	}
	for float64(math.Float32frombits(half<<13)) < size {
		half++
	}
	return half
}

// infinite are the bits of a half-precision number that is not finite.
const infinite = 0x7c00

// appendHalves appends a stored vector. It returns the factor for unit length.
func appendHalves(halves []uint16, stored []byte, dimensions int) (out []uint16, scale float32, err error) {
	if len(stored) != 2*dimensions {
		return halves, 0, fmt.Errorf("a stored vector has %d bytes, not %d", len(stored), 2*dimensions)
	}
	var squares float64
	for ; len(stored) > 0; stored = stored[2:] {
		half := binary.LittleEndian.Uint16(stored)
		if half&infinite == infinite {
			return halves, 0, errors.New("a stored vector has components that are not finite")
		}
		x := float64(moved(half))
		squares += x * x
		halves = append(halves, half)
	}
	if squares == 0 {
		return halves, 0, errors.New("a stored vector has no length")
	}
	return halves, float32(1 / (math.Sqrt(squares) * halfScale)), nil
}

// appendSent is appendHalves for PostgreSQL's binary halfvec: two 16-bit numbers, then the components, all big-endian. It
// changes sent.
func appendSent(halves []uint16, sent []byte, dimensions int) ([]uint16, float32, error) {
	if len(sent) != 4+2*dimensions {
		return halves, 0, fmt.Errorf("a stored vector has %d bytes, not %d", len(sent)-4, 2*dimensions)
	}
	for components := sent[4:]; len(components) > 0; components = components[2:] {
		binary.LittleEndian.PutUint16(components, bits.ReverseBytes16(binary.LittleEndian.Uint16(components)))
	}
	return appendHalves(halves, sent[4:], dimensions)
}
