package rpc

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

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

// TestPanicWhileDecoding: gRPC decodes a request before anything that recovers.
func TestPanicWhileDecoding(t *testing.T) {
	err := receive(func(any) error { panic("secret") }, nil)
	if got := status.Code(err); got != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want %v without the panic's value", err, codes.Internal)
	}
}

// FuzzInvalidUTF8 holds the search for the offending field against the decoder: what the decoder takes has none.
func FuzzInvalidUTF8(f *testing.F) {
	f.Add([]byte("\x1a\x01\xff"))
	f.Add(nested(3))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &triskelev1.ImportRequest{}
		field, err := invalidUTF8(data, m.ProtoReflect().Descriptor(), "", maxNesting)
		if proto.Unmarshal(data, m) == nil && (field != "" || err != nil) {
			t.Errorf("%q, %v in a message the decoder takes: %v", field, err, m)
		}
	})
}
