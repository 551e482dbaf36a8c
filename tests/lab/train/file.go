package train

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/triskele/triskele/services/embed/static"
)

// Encode returns the file of a static model, as static.Decode reads it: the words, their rows rounded to 8 bits, the length
// of the vector of other words, and the constant component of documents. There must be a word, words must differ, and rows
// must have one length.
func Encode(words []string, rows [][]float32, unknown, constant float32) []byte {
	var lengths, letters, scales, table []byte
	for i, row := range rows {
		lengths = append(lengths, byte(len(words[i])))
		letters = append(letters, words[i]...)
		var most float32
		for _, x := range row {
			most = max(most, x, -x)
		}
		scale := most / 127
		if scale == 0 {
			scale = 1
		}
		scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(scale))
		for _, x := range row {
			table = append(table, byte(int8(math.Round(float64(x/scale)))))
		}
	}
	out := []byte("TSE1")
	for _, number := range []uint32{uint32(len(rows)), uint32(len(rows[0])), math.Float32bits(unknown), math.Float32bits(constant)} {
		out = binary.LittleEndian.AppendUint32(out, number)
	}
	return slices.Concat(out, lengths, letters, scales, table)
}

// Random returns a model's file with random rows in place of the trained ones, each of the same length as before. It is a
// control: the model knows which words matter and which are equal, but not their meaning.
func Random(file []byte, seed uint64) ([]byte, error) {
	m, err := static.Decode(string(file))
	if err != nil {
		return nil, err
	}
	words, columns := slices.Collect(m.Vocabulary()), m.Model().QueryDimensions
	number := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(file[at:])) }
	table := len(file) - len(words)*columns
	random := rand.New(rand.NewPCG(seed, 0))
	rows := make([][]float32, len(words))
	for i := range rows {
		rows[i] = make([]float32, columns)
		scale := number(table - 4*(len(words)-i))
		var trained, drawn float64
		for k := range rows[i] {
			x, r := float64(scale*float32(int8(file[table+i*columns+k]))), random.NormFloat64()
			trained, drawn = trained+x*x, drawn+r*r
			rows[i][k] = float32(r)
		}
		for k := range rows[i] {
			rows[i][k] *= float32(math.Sqrt(trained / drawn))
		}
	}
	return Encode(words, rows, number(12), number(16)), nil
}
