// Package onnx embeds with a transformer model that runs inside the process, on ONNX Runtime. The user provides the shared
// library of ONNX Runtime and a folder with a model in the layout of sentence-transformers. The package needs cgo and the
// build tag onnx. Without the tag, Load returns an error. A text is embedded in these steps:
//
//  1. The WordPiece tokenizer turns it into token ids between [CLS] and [SEP], cut at the model's limit.
//  2. Up to 32 texts of similar length are padded to one batch, and the model runs.
//  3. The vectors of a text's tokens are pooled as the model's configuration says: their mean, or the first.
//  4. The vector is scaled to length 1.
package onnx

// Options complete the model's folder.
type Options struct {
	// Library is the path of ONNX Runtime's shared library, or a name for the dynamic loader. The default is
	// libonnxruntime.so. All models of a process must use the same library.
	Library string
	// DocumentPrefix and QueryPrefix replace the prompts of the model's configuration, if they are not nil.
	DocumentPrefix, QueryPrefix *string
}
