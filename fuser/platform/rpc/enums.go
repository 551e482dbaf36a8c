package rpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostNamed bounds a text in which short names are looked for, in bytes: its values take many times as much memory, which nobody counts. Only
// memories are longer, and have no enums.
const mostNamed = 1 << 20

// FromJSON reads a message as protojson does. Values of enums may also have their short names, as in command lines: rrf for
// FUSION_METHOD_RRF. A text without them is read once. The error is protojson's about the text as it was given, or that of Misread.
func FromJSON(options protojson.UnmarshalOptions, text []byte, into proto.Message) error {
	err := options.Unmarshal(text, into)
	if err == nil {
		return nil
	}
	if err := broken(text); err != nil {
		return err
	}
	if len(text) > mostNamed {
		return err
	}
	if err := twice(text); err != nil {
		return err
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

// Misread returns an error if encoding/json would misread a JSON text without one of its own: it replaces broken characters, and of two
// members of one name it drops the first.
func Misread(text []byte) error { return cmp.Or(broken(text), twice(text)) }

func broken(text []byte) error {
	for at := 0; ; { // one at a time: a long text has millions
		found := escape.FindSubmatchIndex(text[at:])
		if found == nil {
			break
		}
		if found[2] >= 0 {
			return fmt.Errorf("byte %d: %s is half of a surrogate pair, which needs its other half", at+found[0]+1, text[at+found[0]:at+found[1]])
		}
		at += found[1]
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if at += size; r == utf8.RuneError && size == 1 {
			return fmt.Errorf("byte %d: must be UTF-8", at)
		}
	}
	return nil
}

func twice(text []byte) error {
	type object struct {
		names map[string]bool // nil for a list
		value bool            // of a name comes next
	}
	if !json.Valid(text) {
		return nil // encoding/json refuses it, a text that is nested too deeply for this, too
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var open []object
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil // the end
		}
		last := len(open) - 1
		name, isText := token.(string)
		switch {
		case token == json.Delim('}') || token == json.Delim(']'):
			open = open[:last]
			continue
		case last >= 0 && open[last].names != nil && !open[last].value && isText:
			if open[last].names[name] {
				return fmt.Errorf("byte %d: duplicate field %q", decoder.InputOffset(), Cut(name, 200))
			}
			open[last].names[name], open[last].value = true, true
			continue
		case last >= 0:
			open[last].value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, object{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		}
	}
}

// escape matches the escapes of a JSON text, a surrogate pair as one. Its group is half of one, such as \ud800.
var escape = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|(u[dD][89a-fA-F][[:xdigit:]]{2})|.)`)

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
				first := string(field.Enum().Values().Get(0).Name()) // UNSPECIFIED; all names begin as it does
				object[name], found = strings.TrimSuffix(first, "UNSPECIFIED")+strings.ToUpper(short), true
			}
		}
	}
	return found
}
