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
	var squares, product float64
	for _, half := range halves[:queried] {
		x := float64(moved(half))
		squares += x * x
	}
	large := math.Sqrt(squares / float64(queried))
	for at := row; at < len(group); at += groupRows {
		group[at] = 0
	}
	for i, half := range halves {
		positive, size, level := half>>15 == 0, math.Abs(float64(moved(half))), 0.5
		if size >= large {
			level = 1.5
		}
		at, bit := i/8*2*groupRows+row, byte(1)<<(i%8)
		if positive {
			group[at] |= bit
		}
		if positive == (size >= large) {
			group[at+groupRows] |= bit
		}
		if i < queried {
			product += level * size
		}
	}
	if product > 0 {
		span = float32(squares / product * halfScale)
	}
	return span
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
