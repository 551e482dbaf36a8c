package rpc

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that serverCodec builds on
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/triskele/triskele/fuser/panics"
)

// request is a message being received. grpc-go answers INTERNAL as soon as its codec returns an error, so the codec
// leaves the error here, for the caller of RecvMsg to return as what it is: the sender's mistake.
type request struct {
	message any
	err     error
}

// receive decodes the next message with recv and says INVALID_ARGUMENT if the bytes are no such message.
func receive(recv func(any) error, message any) error {
	r := &request{message: message}
	err := panics.Catch(context.Background(), nil, "decoding a request", func() error { return recv(r) })
	var panicked *panics.Error
	switch {
	case errors.As(err, &panicked): // outside of what guard catches
		return status.Error(codes.Internal, "internal error; the server's log has the cause")
	case err != nil:
		return err
	}
	return r.err
}

// serverCodec is the standard codec that also knows requests.
type serverCodec struct{ encoding.CodecV2 }

func newServerCodec() serverCodec { return serverCodec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c serverCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	err := c.CodecV2.Unmarshal(data, r.message)
	if err == nil {
		return nil
	}
	r.err = status.Error(codes.InvalidArgument, "the request is not a valid protobuf message")
	if message, ok := r.message.(proto.Message); ok {
		if field, err := invalidUTF8(data.Materialize(), message.ProtoReflect().Descriptor(), "", maxNesting); err == nil && field != "" {
			r.err = Invalid(field, "must be valid UTF-8")
		}
	}
	return nil
}

var errWire = errors.New("not the wire format")

// maxNesting is how deep messages are looked into: the sender chooses how deep they are.
const maxNesting = 32

// invalidUTF8 returns the path of the first string field in an encoded message that is not UTF-8, "" if there is none
// down to the given depth.
// Decoding has failed already; this finds out where, which the decoder does not say.
func invalidUTF8(data []byte, descriptor protoreflect.MessageDescriptor, prefix string, depth int) (string, error) {
	seen := map[protowire.Number]int{}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return "", errWire
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(number, wire, data)
		if n < 0 {
			return "", errWire
		}
		value := data[:n]
		data = data[n:]
		field := descriptor.Fields().ByNumber(number)
		if field == nil || wire != protowire.BytesType {
			continue
		}
		text, _ := protowire.ConsumeBytes(value)
		path := prefix + string(field.Name())
		if field.IsList() {
			path = fmt.Sprintf("%s[%d]", path, seen[number])
		}
		seen[number]++
		switch field.Kind() {
		case protoreflect.StringKind:
			if !utf8.Valid(text) {
				return path, nil
			}
		case protoreflect.MessageKind:
			if depth == 0 {
				continue
			}
			found, err := invalidUTF8(text, field.Message(), path+".", depth-1)
			if found != "" || err != nil {
				return found, err
			}
		}
	}
	return "", nil
}
