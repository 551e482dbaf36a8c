//go:build !onnx

package onnx

import (
	"errors"

	"github.com/triskele/triskele/services/embed"
)

// Load returns an error, since this build has no ONNX Runtime.
func Load(string, Options) (embed.Embedder, error) {
	return nil, errors.New("this program was built without ONNX Runtime: build it with `go build -tags onnx` and a C compiler, and install ONNX Runtime's shared library")
}
