package model2vec

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/triskele/triskele/services/embed/internal/wordpiece"
)

// packedPattern matches the file of a packed model.
const packedPattern = "*.gge1.bin"

// loadPacked reads a model in one file, a quarter of the size: magic, rows, dimensions (4 bytes each, little endian), the
// rows' scales (float32), their int8 components, and of each row the token's length (2 bytes) and text. The tokens are
// those of an uncased BERT.
func (m *Model) loadPacked(file []byte) error {
	const header = 12
	if len(file) < header || string(file[:4]) != "GGE1" {
		return errors.New("not a packed model")
	}
	n, d := int(binary.LittleEndian.Uint32(file[4:])), int(binary.LittleEndian.Uint32(file[8:]))
	scales := file[header:]
	if n < 1 || d < 1 || n > len(scales)/4 || d > (len(scales)-4*n)/n {
		return errors.New("shorter than its rows")
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
			return errors.New("shorter than its tokens")
		}
		end := 2 + int(binary.LittleEndian.Uint16(words))
		tokens[i], words = string(words[2:end]), words[end:]
	}
	if len(words) > 0 {
		return errors.New("longer than its tokens")
	}
	var err error
	m.tokenizer, err = wordpiece.FromVocabulary(tokens, true)
	return err
}
