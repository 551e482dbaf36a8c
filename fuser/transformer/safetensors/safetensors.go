// Package safetensors reads files of tensors in Hugging Face's format: 8 bytes with the header's length, a JSON header with the
// type, shape and place of each tensor, and the tensors' data.
package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/x448/float16"
)

// maxHeader bounds the bytes of the JSON header. The reference implementation has the same bound.
const maxHeader = 100_000_000

// Tensor is one array of a file.
type Tensor struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
	data    io.ReaderAt
}

// Read returns the tensors of a file of size bytes by their names. It reads the header only: the file stays in use.
func Read(file io.ReaderAt, size int64) (map[string]Tensor, error) {
	var start [8]byte
	if size < int64(len(start)) {
		return nil, errors.New("the file is too short for a safetensors file")
	}
	if _, err := file.ReadAt(start[:], 0); err != nil {
		return nil, err
	}
	size -= int64(len(start))
	length := binary.LittleEndian.Uint64(start[:])
	if length > maxHeader || length > uint64(size) {
		return nil, fmt.Errorf("the header has %d bytes, and the file has %d", length, size)
	}
	header := make([]byte, length)
	if _, err := file.ReadAt(header, int64(len(start))); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	delete(raw, "__metadata__")
	size -= int64(length)
	body := io.NewSectionReader(file, int64(len(start))+int64(length), size)
	tensors := map[string]Tensor{}
	for name, text := range raw {
		t := Tensor{data: body}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > size {
			return nil, fmt.Errorf("tensor %q is at bytes %d to %d of %d", name, t.Offsets[0], t.Offsets[1], size)
		}
		tensors[name] = t
	}
	return tensors, nil
}

// Count returns how many numbers the shape holds, or -1 if the shape is invalid.
func (t Tensor) Count() int {
	n := 1
	for _, size := range t.Shape {
		if size < 1 || n > math.MaxInt32/size {
			return -1
		}
		n *= size
	}
	return n
}

// bytes reads the data. width is the size of a number, or 0 for types that are not supported.
func (t Tensor) bytes(width int, supported string) ([]byte, error) {
	if width == 0 {
		return nil, fmt.Errorf("numbers of type %s are not supported: they must be %s", t.Type, supported)
	}
	size := t.Offsets[1] - t.Offsets[0]
	if n := t.Count(); n < 0 || int64(n)*int64(width) != size {
		return nil, fmt.Errorf("%d bytes do not hold shape %v of %s", size, t.Shape, t.Type)
	}
	data := make([]byte, size)
	_, err := t.data.ReadAt(data, t.Offsets[0])
	return data, err
}

// Floats returns the numbers of a tensor of floats or small integers.
func (t Tensor) Floats() ([]float32, error) {
	width := map[string]int{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I8": 1}[t.Type]
	data, err := t.bytes(width, "F64, F32, F16, BF16 or I8")
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(data)/width)
	for i := range out {
		switch t.Type {
		case "F64":
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		case "F32":
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		case "F16":
			out[i] = float16.Frombits(binary.LittleEndian.Uint16(data[2*i:])).Float32()
		case "BF16":
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		case "I8":
			out[i] = float32(int8(data[i]))
		}
	}
	return out, nil
}

// Bytes returns the data of a tensor of bytes.
func (t Tensor) Bytes() ([]byte, error) {
	return t.bytes(map[string]int{"I8": 1}[t.Type], "I8")
}

// Integers returns the numbers of a tensor of indexes.
func (t Tensor) Integers() ([]int, error) {
	width := map[string]int{"I64": 8, "I32": 4}[t.Type]
	data, err := t.bytes(width, "I64 or I32")
	if err != nil {
		return nil, err
	}
	out := make([]int, len(data)/width)
	for i := range out {
		if width == 8 {
			out[i] = int(binary.LittleEndian.Uint64(data[8*i:]))
		} else {
			out[i] = int(int32(binary.LittleEndian.Uint32(data[4*i:])))
		}
	}
	return out, nil
}
