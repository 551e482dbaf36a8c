package static

import (
	_ "embed" // the model is part of the program
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/triskele/triskele/services/embed/tokens"
)

// The file: magic, number of words, columns, unknown, constant (4 bytes each, little endian), the lengths of the words (a
// byte each), the words, the scales (float32), the rows (int8).
const (
	magic      = "TSE1"
	headerSize = 20
	maxColumns = 1023
)

//go:embed model.bin
var builtin string

// Builtin returns the model that is part of the program. The first call takes a few milliseconds.
var Builtin = sync.OnceValues(func() (*Model, error) { return Decode(builtin) })

// NewModel makes a model of words, their rows, which it rounds to 8 bits, the length of the vector of other words, and
// the constant component of documents. There must be a word, words must differ, and rows must be of one length.
func NewModel(words []string, rows [][]float32, unknown, constant float32) *Model {
	m := &Model{columns: len(rows[0]), unknown: unknown, constant: constant}
	var all, table []byte
	for i, row := range rows {
		m.starts = append(m.starts, uint32(len(all)))
		all = append(all, words[i]...)
		var most float32
		for _, x := range row {
			most = max(most, x, -x)
		}
		scale := most / 127
		if scale == 0 {
			scale = 1
		}
		m.scales = append(m.scales, scale)
		for _, x := range row {
			table = append(table, byte(int8(math.Round(float64(x/scale)))))
		}
	}
	m.starts = append(m.starts, uint32(len(all)))
	m.words, m.rows = string(all), string(table)
	m.index()
	return m
}

// Encode returns the model's file.
func (m *Model) Encode() []byte {
	out := []byte(magic)
	for _, number := range []uint32{uint32(len(m.scales)), uint32(m.columns), math.Float32bits(m.unknown), math.Float32bits(m.constant)} {
		out = binary.LittleEndian.AppendUint32(out, number)
	}
	for i := range m.scales {
		out = append(out, byte(m.starts[i+1]-m.starts[i]))
	}
	out = append(out, m.words...)
	for _, scale := range m.scales {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(scale))
	}
	return append(out, m.rows...)
}

// Decode reads what Encode wrote. The model refers to the file instead of copying it.
func Decode(file string) (*Model, error) {
	if len(file) < headerSize || file[:len(magic)] != magic {
		return nil, errors.New("not the file of a static embedding model")
	}
	number := func(at int) uint32 {
		return uint32(file[at]) | uint32(file[at+1])<<8 | uint32(file[at+2])<<16 | uint32(file[at+3])<<24
	}
	words, columns := int(number(4)), int(number(8))
	if words < 1 || words > len(file)-headerSize || columns < 1 || columns > maxColumns {
		return nil, fmt.Errorf("a static embedding model of %d words and %d columns in %d bytes", words, columns, len(file))
	}
	m := &Model{
		columns: columns, unknown: math.Float32frombits(number(12)), constant: math.Float32frombits(number(16)),
		starts: make([]uint32, words+1), scales: make([]float32, words),
	}
	at := headerSize + words
	for i := range words {
		m.starts[i+1] = m.starts[i] + uint32(file[headerSize+i])
	}
	size := int(m.starts[words])
	if len(file) != at+size+4*words+words*columns {
		return nil, fmt.Errorf("a static embedding model of %d words and %d columns does not have %d bytes", words, columns, len(file))
	}
	m.words = file[at : at+size]
	at += size
	for i := range m.scales {
		m.scales[i] = math.Float32frombits(number(at + 4*i))
	}
	m.rows = file[at+4*words:]
	m.index()
	return m, nil
}

// index fills the hash table.
func (m *Model) index() {
	size := 2
	for size < 2*len(m.scales) {
		size *= 2
	}
	m.slots = make([]int32, size)
	var word [255]byte
	for i := range m.scales {
		letters := word[:copy(word[:], m.words[m.starts[i]:m.starts[i+1]])]
		slot, _ := m.find(letters, tokens.HashWord(letters))
		m.slots[slot] = int32(i + 1)
	}
}

// Words is the number of words with a row of their own.
func (m *Model) Words() int { return len(m.scales) }

// Random returns the model with random rows in place of the trained ones, each as long as the one it replaces: a control
// that knows which words matter and which are the same, and nothing about what they mean.
func (m *Model) Random(seed uint64) *Model {
	random := rand.New(rand.NewPCG(seed, 0))
	words, rows := make([]string, m.Words()), make([][]float32, m.Words())
	for i := range rows {
		words[i], rows[i] = m.words[m.starts[i]:m.starts[i+1]], make([]float32, m.columns)
		var trained, drawn float64
		for k := range rows[i] {
			x, r := float64(m.scales[i]*float32(int8(m.rows[i*m.columns+k]))), random.NormFloat64()
			trained, drawn = trained+x*x, drawn+r*r
			rows[i][k] = float32(r)
		}
		for k := range rows[i] {
			rows[i][k] *= float32(math.Sqrt(trained / drawn))
		}
	}
	return NewModel(words, rows, m.unknown, m.constant)
}
