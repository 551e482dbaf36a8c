package dense

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
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

// code writes the code of a vector of so many dimensions into its row of a group. squares is the sum of its squared steps. The span,
// in steps, makes estimates unbiased (the scaling of Gao and Long, "RaBitQ", SIGMOD 2024).
func code(group []byte, row int, steps []int16, squares int64, dimensions int) (span float32) {
	large := uint64(math.Ceil(math.Sqrt(float64(squares) / float64(dimensions))))
	var sizes, larges uint64 // sums of the steps, and of those that are large
	group = group[row:]
	for at := 0; at < len(group); at += 2 * groupRows {
		var low, high uint64
		inside := byte(0)
		if len(steps) > 0 {
			low, high = fourSteps(steps), fourSteps(steps[4:])
			inside, steps = 0xff, steps[8:]
		}
		lowSizes, highSizes := sizesOf(low), sizesOf(high)
		positive := ^(signsOf(low) | signsOf(high)<<4)
		lowLarge, highLarge := (lowSizes|signs)-large*each, (highSizes|signs)-large*each
		isLarge := signsOf(lowLarge) | signsOf(highLarge)<<4
		sizes += sum(lowSizes) + sum(highSizes)
		larges += sum(lowSizes&(lowLarge>>15&each*0xffff)) + sum(highSizes&(highLarge>>15&each*0xffff))
		group[at], group[at+groupRows] = positive&inside, ^(positive^isLarge)&inside
	}
	if sizes == 0 {
		return 0
	}
	return float32(float64(squares) / (float64(sizes)/2 + float64(larges)))
}

// signsOf returns the signs of four numbers, that of the first one lowest.
func signsOf(four uint64) byte {
	return byte((four & signs >> 15) * (1<<48 | 1<<33 | 1<<18 | 1<<3) >> 48 & 15)
}

// sizesOf returns the sizes of four numbers.
func sizesOf(four uint64) uint64 {
	negative := four & signs >> 15
	return (four ^ negative*0xffff) + negative
}

// sum adds up four numbers without signs.
func sum(four uint64) uint64 {
	return (four&(0xffff<<32|0xffff) + four>>16&(0xffff<<32|0xffff)) * (1<<32 | 1) >> 32
}

// infinite are the bits of a half-precision number that is not finite.
const infinite = 0x7c00

// appendHalves appends a stored vector.
func appendHalves(halves []uint16, stored []byte, dimensions int) ([]uint16, error) {
	if len(stored) != 2*dimensions {
		return halves, fmt.Errorf("a stored vector has %d bytes, not %d", len(stored), 2*dimensions)
	}
	from := len(halves)
	halves = slices.Grow(halves, dimensions)[:from+dimensions]
	var sizes, carries uint64 // bits of any four. An exponent of which all bits are set carries into the sign
	for i, next := from, stored; len(next) > 0; i += 4 {
		var four uint64
		if len(next) >= 8 {
			four, next = binary.LittleEndian.Uint64(next), next[8:]
			some := halves[i : i+4]
			some[0], some[1], some[2], some[3] = uint16(four), uint16(four>>16), uint16(four>>32), uint16(four>>48)
		} else {
			for k := range len(next) / 2 {
				halves[i+k] = binary.LittleEndian.Uint16(next[2*k:])
				four |= uint64(halves[i+k]) << (16 * k)
			}
			next = nil
		}
		sizes |= four &^ signs
		carries |= four&(infinite*each) + 0x0400*each
	}
	switch {
	case carries&signs != 0:
		return halves[:from], errors.New("a stored vector has components that are not finite")
	case sizes == 0:
		return halves[:from], errors.New("a stored vector has no length")
	}
	return halves, nil
}

// appendSent is appendHalves for PostgreSQL's binary halfvec: two 16-bit numbers, then big-endian components. It changes sent.
func appendSent(halves []uint16, sent []byte, dimensions int) ([]uint16, error) {
	if len(sent) != 4+2*dimensions {
		return halves, fmt.Errorf("a stored vector has %d bytes, not %d", len(sent)-4, 2*dimensions)
	}
	for components := sent[4:]; len(components) > 0; components = components[2:] {
		binary.LittleEndian.PutUint16(components, bits.ReverseBytes16(binary.LittleEndian.Uint16(components)))
	}
	return appendHalves(halves, sent[4:], dimensions)
}
