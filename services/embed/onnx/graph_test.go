//go:build onnx

package onnx_test

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// What follows writes models in ONNX's protobuf (onnx.proto3 of the ONNX project, whose field numbers these are).

func number(b []byte, field protowire.Number, value int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(value))
}

func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

func text(b []byte, field protowire.Number, value string) []byte {
	return message(b, field, []byte(value))
}

// Element types.
const (
	float32s = 1
	int64s   = 7
	bools    = 9
)

// node is a NodeProto.
func node(kind string, inputs, outputs []string, attributes ...[]byte) []byte {
	var b []byte
	for _, name := range inputs {
		b = text(b, 1, name)
	}
	for _, name := range outputs {
		b = text(b, 2, name)
	}
	b = text(b, 4, kind)
	for _, attribute := range attributes {
		b = message(b, 5, attribute)
	}
	return b
}

// integer, integers and subgraph are AttributeProtos.
func integer(name string, value int64) []byte {
	return number(number(text(nil, 1, name), 3, value), 20, 2)
}

func integers(name string, value int64) []byte {
	return number(number(text(nil, 1, name), 8, value), 20, 7)
}

func subgraph(name string, graph []byte) []byte {
	return number(message(text(nil, 1, name), 6, graph), 20, 5)
}

// tensor is a TensorProto.
func tensor(name string, kind int64, data []byte, shape ...int64) []byte {
	var b []byte
	for _, n := range shape {
		b = number(b, 1, n)
	}
	return message(text(number(b, 2, kind), 8, name), 9, data)
}

func floats(values ...float32) []byte {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func longs(values ...int64) []byte {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

// value is a ValueInfoProto with as many axes as names, each of an unknown size.
func value(name string, kind int64, axes ...string) []byte {
	var shape []byte
	for _, axis := range axes {
		shape = message(shape, 1, text(nil, 2, axis))
	}
	return message(text(nil, 1, name), 2, message(nil, 1, message(number(nil, 1, kind), 2, shape)))
}

// graph is a GraphProto.
type graph struct{ nodes, tensors, inputs, outputs [][]byte }

func (g graph) encode() []byte {
	b := text(nil, 2, "g")
	for _, part := range []struct {
		field    protowire.Number
		messages [][]byte
	}{{1, g.nodes}, {5, g.tensors}, {11, g.inputs}, {12, g.outputs}} {
		for _, m := range part.messages {
			b = message(b, part.field, m)
		}
	}
	return b
}

// model is a ModelProto of opset 13.
func (g graph) model() []byte {
	return message(message(number(nil, 1, 8), 8, number(nil, 2, 13)), 7, g.encode())
}
