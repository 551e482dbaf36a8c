package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
