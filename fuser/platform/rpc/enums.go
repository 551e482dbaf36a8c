package rpc

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FromJSON reads a message as protojson does. Values of enums may also have their short names, as in command lines: rrf for
// FUSION_METHOD_RRF. A text without them is read once. The error is protojson's about the text as it was given.
func FromJSON(options protojson.UnmarshalOptions, text []byte, into proto.Message) error {
	err := options.Unmarshal(text, into)
	if err == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || !inFull(into.ProtoReflect().Descriptor(), value) {
		return err
	}
	full, again := json.Marshal(value)
	if again != nil || options.Unmarshal(full, into) != nil {
		return err
	}
	return nil
}

// inFull replaces short names in a message's JSON object, and reports whether there were any.
func inFull(message protoreflect.MessageDescriptor, value any) (found bool) {
	object, _ := value.(map[string]any)
	for name, inner := range object {
		field := message.Fields().ByJSONName(name)
		if field == nil {
			field = message.Fields().ByTextName(name)
		}
		if field == nil {
			continue
		}
		switch list, isList := inner.([]any); {
		case field.IsMap() && field.MapValue().Message() != nil:
			entries, _ := inner.(map[string]any)
			for _, entry := range entries {
				found = inFull(field.MapValue().Message(), entry) || found
			}
		case field.Message() != nil && isList:
			for _, element := range list {
				found = inFull(field.Message(), element) || found
			}
		case field.Message() != nil:
			found = inFull(field.Message(), inner) || found
		case field.Enum() != nil:
			if short, ok := inner.(string); ok && field.Enum().Values().ByName(protoreflect.Name(short)) == nil {
				object[name], found = longName(field.Enum(), short), true
			}
		}
	}
	return found
}

// longName returns a value's name in the contract. All begin as that of the value 0 does.
func longName(enum protoreflect.EnumDescriptor, short string) string {
	return strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED") + strings.ToUpper(short)
}
