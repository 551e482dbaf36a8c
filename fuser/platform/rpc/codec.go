package rpc

import (
	"errors"
	"fmt"
	"unicode/utf8"

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
	if field, err := invalidUTF8(data, message.ProtoReflect().Descriptor(), "", maxNesting); err == nil && field != "" {
		return Invalid(field, "must be valid UTF-8")
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

var errWire = errors.New("not the wire format")

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
