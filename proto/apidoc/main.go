// Command apidoc is a plugin for buf and protoc that writes api.md: every method, message and enum of the contract, with the comments
// of the proto files and the bounds that servers check. It reads descriptors, so it knows nothing of files' syntax.
package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {

	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		out := plugin.NewGeneratedFile("api.md", "")
		files := slices.DeleteFunc(slices.Clone(plugin.Files), func(f *protogen.File) bool { return !f.Generate })
		// What has the most to say for callers comes first.
		slices.SortStableFunc(files, func(a, b *protogen.File) int { return cmp.Compare(order(a), order(b)) })
		_, err := out.Write([]byte(document(files)))
		return err
	})
}

// order puts a file with services for callers before the legs' own, and files without services last.
func order(f *protogen.File) int {
	switch {
	case len(f.Services) == 0:
		return 3
	case strings.HasSuffix(f.Desc.Path(), "recall.proto"):
		return 0
	case strings.HasSuffix(f.Desc.Path(), "leg.proto"):
		return 2
	}
	return 1
}

// document is the whole reference as Markdown.
func document(files []*protogen.File) string {
	var b strings.Builder
	b.WriteString("<!-- Written by \"make generate\" from the proto files: do not edit. -->\n\n# The contract\n\nBounds are in the words of protovalidate; servers check all of them.\n")
	for _, f := range files {
		fmt.Fprintf(&b, "\n## %s\n", f.Desc.Path())
		for _, s := range f.Services {
			fmt.Fprintf(&b, "\n### %s\n%s", s.Desc.Name(), paragraphs(s.Comments.Leading))
			for _, m := range s.Methods {
				fmt.Fprintf(&b, "\n**%s** (%s%s) returns (%s%s). %s\n", m.Desc.Name(),
					when(m.Desc.IsStreamingClient(), "stream of "), link(m.Input.Desc), when(m.Desc.IsStreamingServer(), "stream of "), link(m.Output.Desc),
					line(m.Comments.Leading))
			}
		}
		for _, m := range f.Messages {
			message(&b, m)
		}
		for _, e := range f.Enums {
			enum(&b, e)
		}
	}
	return b.String()
}

func message(b *strings.Builder, m *protogen.Message) {
	if m.Desc.IsMapEntry() {
		return
	}
	fmt.Fprintf(b, "\n### %s\n%s", name(m.Desc), paragraphs(m.Comments.Leading))
	if len(m.Fields) > 0 {
		b.WriteString("\n| field | type | what |\n|---|---|---|\n")
	}
	for _, f := range m.Fields {
		what := line(f.Comments.Leading)
		if rules := bounds(f.Desc); rules != "" {
			what = strings.TrimSpace(what + " `" + rules + "`")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Desc.Name(), kind(f.Desc), strings.ReplaceAll(what, "|", `\|`))
	}
	for _, nested := range m.Messages {
		message(b, nested)
	}
	for _, nested := range m.Enums {
		enum(b, nested)
	}
}

func enum(b *strings.Builder, e *protogen.Enum) {
	fmt.Fprintf(b, "\n### %s\n%s\n| value | number | what |\n|---|---|---|\n", name(e.Desc), paragraphs(e.Comments.Leading))
	for _, v := range e.Values {
		fmt.Fprintf(b, "| `%s` | %d | %s |\n", v.Desc.Name(), v.Desc.Number(), strings.ReplaceAll(line(v.Comments.Leading), "|", `\|`))
	}
}

// kind is a field's type, with a link if that is described here.
func kind(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map of " + kind(f.MapKey()) + " to " + kind(f.MapValue())
	case f.IsList():
		return "list of " + single(f)
	}
	return when(f.HasOptionalKeyword(), "optional ") + single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return link(f.Message())
	case f.Enum() != nil:
		return link(f.Enum())
	}
	return f.Kind().String()
}

// link leads to the heading of a message or enum of the contract; others have their full names.
func link(d protoreflect.Descriptor) string {
	if !strings.HasPrefix(string(d.FullName()), "triskele.") {
		return "`" + string(d.FullName()) + "`"
	}
	return fmt.Sprintf("[%s](#%s)", name(d), strings.ToLower(strings.ReplaceAll(name(d), ".", "")))
}

// name is a descriptor's name without the package.
func name(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

// bounds are a field's rules but for those that only say that a value is well formed, such as "gte: 1, lte: 1000".
func bounds(f protoreflect.FieldDescriptor) string {
	rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
	return strings.Join(set(rules.ProtoReflect()), ", ")
}

func set(m protoreflect.Message) []string {
	var found []string
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case slices.Contains([]protoreflect.Name{"finite", "defined_only", "not_contains", "ignore", "not_in"}, f.Name()):
		case f.Name() == "items" || f.Name() == "keys" || f.Name() == "values":
			if each := set(v.Message()); len(each) > 0 {
				slices.Sort(each)
				found = append(found, fmt.Sprintf("%s: {%s}", f.Name(), strings.Join(each, ", ")))
			}
		case f.Message() == nil:
			found = append(found, fmt.Sprintf("%s: %v", f.Name(), v.Interface()))
		case f.Message().FullName() == "google.protobuf.Duration":
			found = append(found, fmt.Sprintf("%s: %ds", f.Name(), v.Message().Get(f.Message().Fields().ByName("seconds")).Int()))
		default: // the rules of one type
			found = append(found, set(v.Message())...)
		}
		return true
	})
	slices.Sort(found) // Range has no order
	return found
}

// line is a comment as one line.
func line(c protogen.Comments) string { return strings.Join(strings.Fields(string(c)), " ") }

// paragraphs is a comment as it stands, each line without the space at its beginning.
func paragraphs(c protogen.Comments) string {
	var b strings.Builder
	for _, text := range strings.Split(strings.TrimRight(string(c), "\n"), "\n") {
		if b.Len() > 0 || text != "" {
			b.WriteString(strings.TrimSpace(text) + "\n")
		}
	}
	return b.String()
}

func when(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}
