package safetensors_test

import (
	"bytes"
	"testing"

	"github.com/triskele/triskele/fuser/transformer/modeltest"
	"github.com/triskele/triskele/fuser/transformer/safetensors"
)

// FuzzRead reads files of all kinds. What it accepts has as many numbers as its shape says.
func FuzzRead(f *testing.F) {
	for _, kind := range []string{"F32", "F16", "BF16"} {
		f.Add(modeltest.Safetensors(map[string]modeltest.Tensor{"a": {Shape: []int{2, 2}, Data: []float32{1, -2, 3, 4}}, "b": {Shape: []int{1}, Data: []float32{5}}}, kind))
	}
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := safetensors.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for name, tensor := range tensors {
			floats, err := tensor.Floats()
			if err == nil && len(floats) != tensor.Count() {
				t.Errorf("%q has %d numbers and the shape %v", name, len(floats), tensor.Shape)
			}
			integers, err := tensor.Integers()
			if err == nil && len(integers) != tensor.Count() {
				t.Errorf("%q has %d integers and the shape %v", name, len(integers), tensor.Shape)
			}
		}
	})
}
