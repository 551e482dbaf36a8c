// Command bounds is a plugin for buf and protoc that writes the most bytes of each text of the contract, for the clients in Python and
// TypeScript. They refuse what is longer before they send it.
package main

import (
	"encoding/json"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		most := map[string]uint64{}
		for _, f := range plugin.Files {
			if f.Generate {
				collect(most, f.Messages)
			}
		}
		table, err := json.MarshalIndent(most, "", "    ")
		if err != nil {
			return err
		}
		write := func(name, text string) { plugin.NewGeneratedFile(name, "").P(text) }
		write("python/src/triskele/_bounds.py", "# Written by \"make generate\" from the proto files: do not edit.\nMAX_BYTES: dict[str, int] = "+string(table))
		write("typescript/src/bounds.ts", "// Written by \"make generate\" from the proto files: do not edit.\nexport const maxBytes: Record<string, number> = "+string(table)+";")
		return nil
	})
}

// collect adds the bound of each text field, or of each text in a list, by the field's full name.
func collect(most map[string]uint64, messages []*protogen.Message) {
	for _, m := range messages {
		for _, field := range m.Fields {
			rules, ok := proto.GetExtension(field.Desc.Options(), validate.E_Field).(*validate.FieldRules)
			if !ok {
				continue
			}
			if n := rules.GetRepeated().GetItems().GetString().GetMaxBytes() + rules.GetString().GetMaxBytes(); n > 0 {
				most[string(field.Desc.FullName())] = n
			}
		}
		collect(most, m.Messages)
	}
}
