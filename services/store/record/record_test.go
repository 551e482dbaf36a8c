package record_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

func TestRoundTrip(t *testing.T) {
	want := record.Record{
		ID: uuid.New(), Namespace: "n", Content: "c", Title: "t", Keywords: []string{"k"}, Tags: []string{"a", "b"}, Category: "fact",
		Metadata: map[string]any{"n": 1.5, "s": "x", "l": []any{true, nil}}, Importance: .25, Sensitive: true, Source: "s",
		CreatedAt: time.UnixMicro(1_700_000_000_123_456).UTC(), UpdatedAt: time.UnixMicro(1_700_000_001_000_000).UTC(),
		OccurredAt: time.Unix(0, 0).UTC(), ExpiresAt: time.Unix(4e9, 0).UTC(),
		Supersedes: uuid.New(), SupersededBy: uuid.New(), Revision: 3, IdempotencyKey: "i",
		Thread: "talk", Position: new(int64),
	}
	got, err := record.FromProto(record.ToProto(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestDefaults(t *testing.T) {
	got, err := record.FromProto(&triskelev1.Memory{Namespace: "n", Content: "c"})
	if err != nil || got.Importance != .5 || got.ID != uuid.Nil || !got.ExpiresAt.IsZero() || got.Metadata != nil {
		t.Errorf("%+v, %v", got, err)
	}
	zero := 0.
	if got, err = record.FromProto(&triskelev1.Memory{Importance: &zero}); err != nil || got.Importance != 0 {
		t.Errorf("importance 0 is not the default: %+v, %v", got, err)
	}
}

func TestWhatCannotBeDeclaredIsChecked(t *testing.T) {
	many := map[string]*structpb.Value{}
	for i := range 65 {
		many[strings.Repeat("k", i+1)] = structpb.NewNullValue()
	}
	one := func(v *structpb.Value) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"k": v}}
	}
	deep := structpb.NewNullValue()
	for range 32 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	for name, x := range map[string]struct {
		m    *triskelev1.Memory
		want string
	}{
		"metadata of 33 levels": {&triskelev1.Memory{Metadata: one(deep)}, "metadata: must have finite numbers and at most 32"},
		"metadata with 65 keys": {&triskelev1.Memory{Metadata: &structpb.Struct{Fields: many}}, "metadata: must have at most 64"},
		"metadata of 17 KB":     {&triskelev1.Memory{Metadata: one(structpb.NewStringValue(strings.Repeat("x", 17<<10)))}, "metadata: must be at most 16384"},
		"metadata with NaN":     {&triskelev1.Memory{Metadata: one(structpb.NewNumberValue(math.NaN()))}, "metadata"},
		"metadata with NUL":     {&triskelev1.Memory{Metadata: one(structpb.NewStringValue("a\x00"))}, "metadata"},
		"too many revisions":    {&triskelev1.Memory{Revision: 1<<53 + 1}, "revision: must be at most 9007199254740992"},
		"no UUID":               {&triskelev1.Memory{Supersedes: "x"}, "supersedes"},
		"year 20000":            {&triskelev1.Memory{ExpiresAt: &timestamppb.Timestamp{Seconds: 1 << 40}}, "expires_at"},
	} {
		_, err := record.FromProto(x.m)
		var field *record.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := record.FromProto(&triskelev1.Memory{Metadata: one(structpb.NewStringValue(`written as \u0000`))}); err != nil {
		t.Errorf("a text that only describes NUL: got %v, want no error", err)
	}
	for name, v := range map[string]*structpb.Value{
		"object": structpb.NewStructValue(one(structpb.NewNullValue())), "list": structpb.NewListValue(&structpb.ListValue{}),
		"null": structpb.NewNullValue(), "infinity": structpb.NewNumberValue(math.Inf(1)), "NUL": structpb.NewStringValue("\x00"),
	} {
		var field *record.FieldError
		if _, err := record.FilterFromProto(&triskelev1.Filter{Metadata: map[string]*structpb.Value{"k": v}}); !errors.As(err, &field) || field.Field != "filter.metadata" {
			t.Errorf("filter on %s: %v", name, err)
		}
	}
}

// A filter for -0 finds what a memory has as 0: no metadata has -0.
func TestMinusZero(t *testing.T) {
	minus := map[string]*structpb.Value{"k": structpb.NewNumberValue(math.Copysign(0, -1))}
	f, err := record.FilterFromProto(&triskelev1.Filter{Metadata: minus})
	if got, is := f.Metadata["k"].(float64); err != nil || !is || math.Signbit(got) {
		t.Errorf("got %v and %v, want 0", f.Metadata, err)
	}
}

func TestNarrow(t *testing.T) {
	if (record.Filter{IncludeSuperseded: true}).Narrow() {
		t.Error("liveness alone is not narrow")
	}
	for _, f := range []record.Filter{
		{TagsAny: []string{"a"}}, {TagsAll: []string{"a"}}, {Categories: []string{"a"}}, {CreatedFrom: time.Unix(1, 0)},
		{CreatedBefore: time.Unix(1, 0)}, {Metadata: map[string]any{"a": 1.}},
	} {
		if !f.Narrow() {
			t.Errorf("%+v is narrow", f)
		}
	}
}

// FuzzRoundTrip decodes arbitrary bytes: what FromProto accepts must come back the same from ToProto.
func FuzzRoundTrip(f *testing.F) {
	seed, err := proto.Marshal(&triskelev1.Memory{Content: "c", Tags: []string{"a"}, CreatedAt: timestamppb.New(time.Unix(7, 1000))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m triskelev1.Memory
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		first, err := record.FromProto(&m)
		if err != nil {
			return
		}
		back := record.ToProto(first)
		second, err := record.FromProto(back)
		if err != nil {
			t.Fatalf("%v: %v", back, err)
		}
		if third := record.ToProto(second); !proto.Equal(back, third) {
			t.Errorf("%v\nbecame %v", back, third)
		}
	})
}
