package model2vec

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/triskele/triskele/fuser/transformer/wordpiece"
)

// packedPattern matches the file of a packed model.
const packedPattern = "*.gge1.bin"

// loadPacked reads a packed model, which takes a quarter of the size. The file has these parts, with little-endian numbers:
//
//	"GGE1", number of rows, dimensions       4 bytes each
//	scales of the rows                       float32 each
//	components of the rows                   int8 each, times the scale
//	tokens of the rows                       length in 2 bytes, then the text
//
// The tokenizer is that of an uncased BERT.
func (m *Model) loadPacked(file []byte) error {
	const header = 12
	if len(file) < header || string(file[:4]) != "GGE1" {
		return errors.New("the file is not a packed model")
	}
	n, d := int(binary.LittleEndian.Uint32(file[4:])), int(binary.LittleEndian.Uint32(file[8:]))
	scales := file[header:]
	if n < 1 || d < 1 || n > len(scales)/4 || d > (len(scales)-4*n)/n {
		return errors.New("the file ends before the last row")
	}
	components, words := scales[4*n:4*n+n*d], scales[4*n+n*d:]
	m.model.Dimensions, m.rows = d, make([]float32, n*d)
	tokens := make([]string, n)
	for i := range n {
		scale := math.Float32frombits(binary.LittleEndian.Uint32(scales[4*i:]))
		for k := i * d; k < (i+1)*d; k++ {
			m.rows[k] = scale * float32(int8(components[k]))
		}
		if len(words) < 2 || len(words)-2 < int(binary.LittleEndian.Uint16(words)) {
			return errors.New("the file ends before the last token")
		}
		end := 2 + int(binary.LittleEndian.Uint16(words))
		tokens[i], words = string(words[2:end]), words[end:]
	}
	if len(words) > 0 {
		return errors.New("the file goes on after the last token")
	}
	var err error
	m.tokenizer, err = wordpiece.FromVocabulary(tokens, true)
	return err
}
