package rpc

import (
	"testing"

	"google.golang.org/grpc/codes"
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
	if err := decode(data, &triskelev1.Memory{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("decoding gave %v", err)
	}
}

// FuzzDecode: bytes cost what they are at least, and those that are no message are their sender's fault.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x0a\x00\x0a\x02\x1a\x00"))
	f.Add(nested(50))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []proto.Message{&triskelev1.ImportRequest{}, &triskelev1.RecallRequest{}, &triskelev1.UpdateRequest{}} {
			spent := cost(data, m.ProtoReflect().Descriptor(), maxNesting)
			if spent < len(data) {
				t.Errorf("%T: %d bytes cost %d", m, len(data), spent)
			}
			if err := decode(data, m); err != nil && status.Code(err) != codes.InvalidArgument {
				t.Errorf("%T: %v", m, err)
			} else if err == nil && spent < proto.Size(m) {
				t.Errorf("%T: a message of %d bytes costs %d", m, proto.Size(m), spent)
			}
		}
	})
}
