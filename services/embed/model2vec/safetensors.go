package model2vec

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// maxHeader bounds the bytes of a safetensors file's JSON header. The reference implementation has the same bound.
const maxHeader = 100_000_000

// tensor is one array of a safetensors file.
type tensor struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
	data    []byte
}

// parseTensors reads a safetensors file: 8 bytes with the header's length, the JSON header, and the data of the tensors. The
// header has the type, shape and place of each tensor.
func parseTensors(file []byte) (map[string]tensor, error) {
	if len(file) < 8 {
		return nil, errors.New("the file is too short for a safetensors file")
	}
	size := binary.LittleEndian.Uint64(file)
	if size > maxHeader || size > uint64(len(file)-8) {
		return nil, fmt.Errorf("the header has %d bytes, and the file has %d", size, len(file))
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+size], &raw); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	body := file[8+size:]
	tensors := map[string]tensor{}
	for name, text := range raw {
		if name == "__metadata__" {
			continue
		}
		var t tensor
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		from, to := t.Offsets[0], t.Offsets[1]
		if from < 0 || to < from || to > len(body) {
			return nil, fmt.Errorf("tensor %q is at bytes %d to %d of %d", name, from, to, len(body))
		}
		t.data = body[from:to]
		tensors[name] = t
	}
	return tensors, nil
}

// count returns how many numbers the shape holds, or -1 if the shape is invalid.
func (t tensor) count() int {
	n := 1
	for _, size := range t.Shape {
		if size < 1 || n > math.MaxInt32/size {
			return -1
		}
		n *= size
	}
	return n
}

// floats returns the numbers of a tensor of floats or small integers.
func (t tensor) floats() ([]float32, error) {
	width := map[string]int{"F64": 8, "F32": 4, "F16": 2, "I8": 1}[t.Type]
	if width == 0 {
		return nil, fmt.Errorf("numbers of type %s are not supported: they must be F64, F32, F16 or I8", t.Type)
	}
	n := t.count()
	if n < 0 || n*width != len(t.data) {
		return nil, fmt.Errorf("%d bytes do not hold shape %v of %s", len(t.data), t.Shape, t.Type)
	}
	out := make([]float32, n)
	for i := range out {
		switch t.Type {
		case "F64":
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.data[8*i:])))
		case "F32":
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
		case "F16":
			out[i] = float16.Frombits(binary.LittleEndian.Uint16(t.data[2*i:])).Float32()
		case "I8":
			out[i] = float32(int8(t.data[i]))
		}
	}
	return out, nil
}

// integers returns the numbers of a tensor of indexes.
func (t tensor) integers() ([]int, error) {
	width := map[string]int{"I64": 8, "I32": 4}[t.Type]
	if n := t.count(); width == 0 || n < 0 || n*width != len(t.data) {
		return nil, fmt.Errorf("%d bytes do not hold shape %v of %s: indexes must be I64 or I32", len(t.data), t.Shape, t.Type)
	}
	out := make([]int, t.count())
	for i := range out {
		if width == 8 {
			out[i] = int(binary.LittleEndian.Uint64(t.data[8*i:]))
		} else {
			out[i] = int(int32(binary.LittleEndian.Uint32(t.data[4*i:])))
		}
	}
	return out, nil
}
