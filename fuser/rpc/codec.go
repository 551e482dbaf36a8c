package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that serverCodec builds on
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
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
	if err := recv(r); err != nil {
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
	if c.CodecV2.Unmarshal(data, r.message) != nil {
		r.err = status.Error(codes.InvalidArgument, "the request is not a valid protobuf message")
	}
	return nil
}
