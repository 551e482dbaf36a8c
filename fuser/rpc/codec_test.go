package rpc

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// nested encodes a metadata value that is a list in a list in a list, and so on.
func nested(levels int) []byte {
	var value []byte
	for range levels {
		list := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), value) // ListValue.values
		value = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), list)  // Value.list_value
	}
	return value
}

func TestDeepNestingIsRefused(t *testing.T) {
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nested(10_100))
	fields := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	data := protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), fields) // Memory.metadata
	r := &request{message: &triskelev1.Memory{}}
	if err := newServerCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, r); err != nil || r.err == nil {
		t.Errorf("decoding gave %v, the request %v", err, r.err)
	}
}
