// Package onnx embeds with a transformer that runs inside the process, by ONNX Runtime. Whoever uses it brings the runtime's
// shared library and a folder with the model in the layout of sentence-transformers. It needs cgo, and is part of builds
// with the tag onnx only; Load of other builds says so.
package onnx

// Options say where the runtime is and what the folder leaves open.
type Options struct {
	// Library is the path of ONNX Runtime's shared library, or a name that the dynamic loader finds; libonnxruntime.so if
	// empty. A process uses one.
	Library string
	// DocumentPrefix and QueryPrefix take the place of the prompts that the model's configuration names, if not nil.
	DocumentPrefix, QueryPrefix *string
}
