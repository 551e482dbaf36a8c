package rpc

import (
	"bytes"
	"math"
	"runtime"
	"testing"

	pv "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// largest is how many bytes a message may have by its rules. What they leave open is bounded elsewhere: metadata has 16 KiB as JSON, and
// names are short.
func largest(t *testing.T, message protoreflect.MessageDescriptor) int {
	switch message.FullName() {
	case "google.protobuf.Struct":
		return 90 << 10
	case "google.protobuf.Value":
		return 1 << 10
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		return 16
	case "google.protobuf.FieldMask":
		return 512
	}
	total := 0
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		rules, err := protovalidate.ResolveFieldRules(field)
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		switch {
		case field.IsMap():
			if n = int(rules.GetMap().GetMaxPairs()); n == 0 {
				t.Fatalf("%s has no bound", field.FullName())
			}
			total += n * (8 + 128 + value(t, field.MapValue(), nil))
			continue
		case field.IsList():
			if n = int(rules.GetRepeated().GetMaxItems()); n == 0 {
				t.Fatalf("%s has no bound", field.FullName())
			}
			rules = rules.GetRepeated().GetItems()
		}
		total += n * (4 + value(t, field, rules))
	}
	return total
}

func value(t *testing.T, field protoreflect.FieldDescriptor, rules *pv.FieldRules) int {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return largest(t, field.Message())
	case protoreflect.StringKind:
		if rules.GetString().GetUuid() {
			return 36
		}
		if n := rules.GetString().GetMaxBytes(); n > 0 {
			return int(n)
		}
		return 128
	}
	return 10
}

// TestLimitsFitTheContract: what the rules allow is not refused for its length, neither as protobuf nor as JSON, where a byte may take
// two. The exception is an import of a thousand memories that are as large as they may be.
func TestLimitsFitTheContract(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{triskelev1.File_triskele_v1_memory_proto, triskelev1.File_triskele_v1_recall_proto, triskelev1.File_triskele_v1_leg_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
				want, got := 2*largest(t, m.Input()), MaxBytes(name)
				if name == triskelev1.MemoryService_Import_FullMethodName {
					want = 64 * largest(t, m.Input().Fields().ByName("memories").Message())
				}
				if got < want {
					t.Errorf("%s: got a limit of %d bytes, want %d", name, got, want)
				}
			}
		}
	}
}

// TestCost holds the estimate against what decoding takes, for what takes the least to send.
func TestCost(t *testing.T) {
	empty := func(field protowire.Number, n int) []byte {
		return bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), 0), n)
	}
	entries := func(n int) (all []byte) { // of a map, each with another key
		for i := range n {
			key := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{byte('a' + i%26), byte('a' + i/26%26), byte('a' + i/676)})
			all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), key)
		}
		return all
	}
	for name, x := range map[string]struct {
		data    []byte
		message proto.Message
	}{
		"memories": {empty(1, 10_000), &triskelev1.ImportRequest{}},
		"links":    {empty(20, 10_000), &triskelev1.Memory{}},
		"tags":     {empty(6, 10_000), &triskelev1.Memory{}},
		"ids":      {empty(4, 10_000), &triskelev1.ScoreByIdsRequest{}},
		"floats":   {bytes.Repeat(protowire.AppendFixed32(protowire.AppendTag(nil, 3, protowire.Fixed32Type), 1), 10_000), &triskelev1.SearchRequest{}},
		"values":   {empty(1, 10_000), &structpb.ListValue{}},
		"objects":  {bytes.Repeat([]byte("\x0a\x02\x2a\x00"), 10_000), &structpb.ListValue{}},
		"lists":    {bytes.Repeat([]byte("\x0a\x02\x32\x00"), 10_000), &structpb.ListValue{}},
		"a map":    {entries(10_000), &structpb.Struct{}},
		"legs":     {bytes.ReplaceAll(entries(10_000), []byte("\x0a\x05"), []byte("\x42\x05")), &triskelev1.RecallRequest{}},
	} {
		estimate := cost(x.data, x.message.ProtoReflect().Descriptor(), maxNesting)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode(x.data, x.message)
		runtime.ReadMemStats(&after)
		if took := int(after.TotalAlloc - before.TotalAlloc); err != nil || float64(took) > 2*float64(estimate) {
			t.Errorf("%s: decoding took %d bytes, %.1f times the estimate, want 2 at most; %v", name, took, float64(took)/float64(estimate), err)
		}
	}
}

// TestMaxBytes: what is in no table is small.
func TestMaxBytes(t *testing.T) {
	for _, method := range []string{"", "/grpc.health.v1.Health/Check", "/triskele.v1.MemoryService/Export", "/x/y"} {
		if got := MaxBytes(method); got != otherBytes || got > math.MaxUint16 {
			t.Errorf("%q: got %d bytes, want %d", method, got, otherBytes)
		}
	}
}
