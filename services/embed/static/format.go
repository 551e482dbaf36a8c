package static

import (
	_ "embed" // the model is part of the program
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
)

// A model's file has these parts, with little-endian numbers:
//
//	magic, number of words, columns, unknown, constant    4 bytes each; the last two are float32
//	lengths of the words                                  1 byte each
//	words                                                 UTF-8
//	scales of the rows                                    float32 each
//	rows                                                  columns int8 each
const (
	magic      = "TSE1"
	headerSize = 20
	maxColumns = 1023
)

//go:embed model.bin
var builtin string

// Builtin returns the model that is part of the program. The first call takes a few milliseconds.
var Builtin = sync.OnceValues(func() (*Model, error) { return Decode(builtin) })

// File returns the built-in model's file.
func File() string { return builtin }

// Decode reads a model's file. The model refers to the file instead of copying it.
func Decode(file string) (*Model, error) {
	if len(file) < headerSize || file[:len(magic)] != magic {
		return nil, errors.New("not the file of a static embedding model")
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32([]byte(file[at : at+4])) }
	words, columns := int(number(4)), int(number(8))
	if words < 1 || words > len(file)-headerSize || columns < 1 || columns > maxColumns {
		return nil, fmt.Errorf("the header names %d words and %d columns in a file of %d bytes", words, columns, len(file))
	}
	lengths, at, size := file[headerSize:headerSize+words], headerSize+words, 0
	for i := range lengths {
		size += int(lengths[i])
	}
	if want := at + size + 4*words + words*columns; len(file) != want {
		return nil, fmt.Errorf("%d words and %d columns take %d bytes, and the file has %d", words, columns, want, len(file))
	}
	m := &Model{
		columns: columns, unknown: math.Float32frombits(number(12)), constant: math.Float32frombits(number(16)),
		words: make([]string, words), row: make(map[string]int32, words), scales: make([]float32, words),
	}
	for i := range m.words {
		m.words[i] = file[at : at+int(lengths[i])]
		m.row[m.words[i]] = int32(i)
		at += int(lengths[i])
	}
	for i := range m.scales {
		m.scales[i] = math.Float32frombits(number(at + 4*i))
	}
	m.rows = file[at+4*words:]
	return m, nil
}

// Knows reports whether a stem has a row of its own.
func (m *Model) Knows(stem string) bool {
	_, known := m.row[stem]
	return known
}

// Words returns the number of words with a row of their own.
func (m *Model) Words() int { return len(m.words) }

// Vocabulary yields the words with a row of their own, in the order of the file. A trained model has the most frequent
// word first.
func (m *Model) Vocabulary() iter.Seq[string] { return slices.Values(m.words) }
