package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxNesting is how deep messages may be, since the sender chooses that. The contract allows 32 levels of metadata, each of which
// takes three of messages.
const maxNesting = 128

// decode says INVALID_ARGUMENT if the bytes are no such message.
func decode(data []byte, message proto.Message) error {
	if (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(data, message) == nil {
		return nil
	}
	return status.Error(codes.InvalidArgument, "the request is not a valid protobuf message, or one that is nested too deeply")
}

// What values take beside their texts: a message for each of its fields, set or not, and any value for its place in a list.
const (
	messageCost = 48
	fieldCost   = 20
	valueCost   = 32
)

// cost estimates how many bytes an encoded message takes once it is decoded, as far down as the decoder goes.
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
