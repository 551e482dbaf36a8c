package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// messageTime bounds the arrival of a large message and the call's end behind it, since it holds memory that others wait for.
const messageTime = time.Minute

// Frames are a call's messages as they are sent. Those of gRPC are a grpc-go stream below message framing. The library's receive
// has one limit for all methods, and decompresses. These methods are no stable API: every call fails without them.
type Frames interface {
	// ReadMessageHeader reads the header of the next message, or returns io.EOF.
	ReadMessageHeader(header []byte) error
	// Read reads so many bytes.
	Read(n int) (mem.BufferSlice, error)
}

// intake receives the messages of an admitted call. It checks the length before reading and the cost before decoding.
// It then validates the message and asks Call.Allow.
type intake struct {
	ctx     context.Context
	method  string
	single  bool // exactly one message
	memory  *MessageMemory
	call    Call
	frames  Frames   // nil for gRPC's own
	given   source   // of a call of this process: its messages; nil for frames
	trusted bool     // those of given are valid
	release []func() // frees the last message's memory
}

// source returns the next message of a call of this process, or io.EOF.
type source func(ctx context.Context) (proto.Message, error)

// next receives a message, io.EOF if there is none.
func (in *intake) next(message any) error {
	in.close()
	if in.given != nil {
		given, err := in.given(in.ctx)
		if err != nil {
			return err
		}
		move(message.(proto.Message), given)
		if !in.trusted {
			if err := validate(message.(proto.Message)); err != nil {
				return err
			}
		}
		return in.call.Allow(message)
	}
	stream := in.frames
	if stream == nil {
		var ok bool
		if stream, ok = grpc.ServerTransportStreamFromContext(in.ctx).(Frames); !ok {
			return errors.New("grpc-go's streams have changed")
		}
	}
	data, err := in.read(stream)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.InvalidArgument, "the message is shorter than its header says")
	}
	if err != nil {
		return err
	}
	if in.single {
		end := func() (struct{}, error) { return struct{}{}, stream.ReadMessageHeader(make([]byte, FrameHeader)) }
		if data.Len() > largeBytes {
			_, err = inTime(messageTime, "the call did not end within %v", end)
		} else {
			_, err = end()
		}
		if !errors.Is(err, io.EOF) {
			data.Free()
			if err == nil {
				err = status.Error(codes.InvalidArgument, "the call has more than one message")
			}
			return err
		}
	}
	if err := in.decode(data, message.(proto.Message)); err != nil {
		return err
	}
	return in.call.Allow(message)
}

func (in *intake) close() {
	for _, release := range in.release {
		release()
	}
	in.release = nil
}

// FrameHeader is the size of a message's header in bytes: whether it is compressed, and its length.
const FrameHeader = 5

func (in *intake) read(stream Frames) (mem.BufferSlice, error) {
	var header [FrameHeader]byte
	err := stream.ReadMessageHeader(header[:])
	switch {
	case errors.Is(err, io.EOF) && in.single:
		return nil, status.Error(codes.InvalidArgument, "the call has no message")
	case err != nil:
		return nil, err
	case header[0] != 0:
		return nil, status.Error(codes.Unimplemented, "messages must not be compressed")
	}
	length := binary.BigEndian.Uint32(header[1:])
	if most := MaxBytes(in.method); uint64(length) > uint64(most) {
		return nil, status.Errorf(codes.ResourceExhausted, "a message to this method may have at most %d bytes", most)
	}
	n := int(length)
	if n <= largeBytes {
		return stream.Read(n)
	}
	release, err := in.memory.Sent(in.ctx, n)
	if err != nil {
		return nil, err
	}
	in.release = append(in.release, release)
	return inTime(messageTime, "the message did not arrive within %v", func() (mem.BufferSlice, error) { return stream.Read(n) })
}

// decode checks the cost of a message, decodes and validates it.
func (in *intake) decode(data mem.BufferSlice, message proto.Message) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	data.Free()
	defer buffer.Free()
	spent := cost(buffer.ReadOnlyData(), message.ProtoReflect().Descriptor(), maxNesting)
	if spent > MaxCost(in.method) {
		return TooCostly()
	}
	release, err := in.memory.Decoded(in.ctx, spent)
	if err != nil {
		return err
	}
	in.release = append(in.release, release)
	if err := decode(buffer.ReadOnlyData(), message); err != nil {
		return err
	}
	return validate(message)
}

// maxExplained is the largest request, in bytes, whose violations are all counted. Larger ones get the first only.
// Finding all in a hundred thousand elements takes seconds, and more memory than the request.
const maxExplained = 4 << 10

func validate(message proto.Message) error {
	err := protovalidate.Validate(message, protovalidate.WithFailFast())
	if err != nil && proto.Size(message) <= maxExplained {
		err = protovalidate.Validate(message)
	}
	return FromViolations("", err)
}

// maxNesting bounds the depth of messages. The contract allows 32 levels of metadata, of three messages each.
const maxNesting = 128

// decode returns INVALID_ARGUMENT if the bytes are no such message.
func decode(data []byte, message proto.Message) error {
	if (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(data, message) == nil {
		return nil
	}
	return status.Error(codes.InvalidArgument, "the request is not a valid protobuf message, or one that is nested too deeply")
}

// Estimated bytes beside texts: for a message, for each field of its type, and for each value sent.
const (
	messageCost = 48
	fieldCost   = 20
	valueCost   = 32
)

// cost estimates the bytes of an encoded message once it is decoded, down to depth levels.
func cost(data []byte, descriptor protoreflect.MessageDescriptor, depth int) int {
	total := messageCost + fieldCost*descriptor.Fields().Len() + len(data)
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return total
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(number, wire, data)
		if n < 0 {
			return total
		}
		value := data[:n]
		data = data[n:]
		total += valueCost
		field := descriptor.Fields().ByNumber(number)
		if field == nil || wire != protowire.BytesType || field.Message() == nil || depth == 0 {
			continue
		}
		nested, _ := protowire.ConsumeBytes(value)
		total += cost(nested, field.Message(), depth-1) - len(nested)
	}
	return total
}

// SendTime bounds how long a receiver may block the next message of a stream. A sleeping laptop blocks for ever.
const SendTime = 30 * time.Second

// SendInTime sends a message of a stream. The error is DEADLINE_EXCEEDED if the receiver takes none within limit. The
// handler must then return, which ends the stream and the send.
func SendInTime[T any](send func(T) error, message T, limit time.Duration) error {
	_, err := inTime(limit, "the client read nothing for %v", func() (struct{}, error) { return struct{}{}, send(message) })
	return err
}

// inTime returns what do returns, or an error after limit. do must end with its call.
func inTime[T any](limit time.Duration, late string, do func() (T, error)) (out T, err error) {
	type outcome struct {
		out T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		out, err := do()
		done <- outcome{out, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.out, o.err
	case <-timer.C:
		return out, status.Errorf(codes.DeadlineExceeded, late, limit)
	}
}
