package otlp_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const traceID = "5b8efff798038103d269b633813fc60c"

// want is what each of the texts below says.
var want = &triskelev1.Span{
	Id: "eee19b7ec3c1b174", ParentId: "eee19b7ec3c1b173", Name: "leg dense", Service: "fuser",
	Start: timestamppb.New(time.Unix(1544712660, 5)), Duration: durationpb.New(1500 * time.Nanosecond),
	Attributes: map[string]string{"triskele.leg": "dense", "triskele.budget_us": "450000", "triskele.hedged": "true", "share": "0.5"}, Failed: true,
}

const attributes = `[{"key":"triskele.leg","value":{"stringValue":"dense"}},{"key":"triskele.budget_us","value":{"intValue":"450000"}},
 {"key":"triskele.hedged","value":{"boolValue":true}},{"key":"share","value":{"doubleValue":0.5}}]`

var texts = map[string]string{
	// A line of the collector's file exporter.
	"collector": `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{"scope":{"name":"x"},
 "spans":[{"traceId":"` + traceID + `","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","flags":256,"name":"leg dense","kind":1,
 "startTimeUnixNano":"1544712660000000005","endTimeUnixNano":"1544712660000001505","attributes":` + attributes + `,"status":{"code":2}}]}]}]}`,
	// Tempo's /api/traces/ID, which is protobuf's JSON.
	"tempo": `{"batches":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{"scope":{},
 "spans":[{"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"7uGbfsPBsXQ=","parentSpanId":"7uGbfsPBsXM=","name":"leg dense","kind":"SPAN_KIND_INTERNAL",
 "startTimeUnixNano":"1544712660000000005","endTimeUnixNano":"1544712660000001505","attributes":` + attributes + `,"status":{"message":"late","code":"STATUS_CODE_ERROR"}}]}]}]}`,
	"tempo 2": `{"trace":{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"fuser"}}]},"scopeSpans":[{
 "spans":[{"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"7uGbfsPBsXQ=","parentSpanId":"7uGbfsPBsXM=","name":"leg dense",
 "startTimeUnixNano":1544712660000000005,"endTimeUnixNano":1544712660000001505,"attributes":` + attributes + `,"status":{"code":2}}]}]}]},"metrics":{}}`,
}

func decode(t *testing.T, text string) (spans []*triskelev1.Span) {
	t.Helper()
	err := otlp.Decode(strings.NewReader(text), func(id string, span *triskelev1.Span) error {
		if id != traceID {
			t.Errorf("trace %s", id)
		}
		spans = append(spans, span)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

func TestDecode(t *testing.T) {
	for name, text := range texts {
		if got := decode(t, text); len(got) != 1 || !proto.Equal(got[0], want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := decode(t, texts["collector"]+"\n"+texts["tempo"]); len(got) != 2 {
		t.Errorf("%d spans of two lines", len(got))
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	root := proto.CloneOf(want)
	root.Id, root.ParentId, root.Service, root.Failed = "00000000000000aa", "", "other", false
	var b bytes.Buffer
	if err := otlp.Encode(&b, otlp.Trace{ID: traceID, Spans: []*triskelev1.Span{want, root, want}}); err != nil {
		t.Fatal(err)
	}
	got := decode(t, b.String())
	if len(got) != 3 || !proto.Equal(got[0], want) || !proto.Equal(got[1], want) || !proto.Equal(got[2], root) || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%s became %v", &b, got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          `resourceSpans`,
		"half a document":  `{"resourceSpans":[`,
		"an id that is no": strings.Replace(texts["collector"], `"eee19b7ec3c1b174"`, `"eee"`, 1),
		"no id":            strings.Replace(texts["collector"], `"eee19b7ec3c1b174"`, `"0000000000000000"`, 1),
		"a time before":    strings.Replace(texts["collector"], `"1544712660000000005"`, `"-5"`, 1),
		"a time too late":  strings.Replace(texts["collector"], `"1544712660000000005"`, `"18446744073709551615"`, 1),
	} {
		err := otlp.Decode(strings.NewReader(text), func(string, *triskelev1.Span) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "document 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_ = otlp.Decode(strings.NewReader(text), func(id string, span *triskelev1.Span) error {
			var b bytes.Buffer
			if err := otlp.Encode(&b, otlp.Trace{ID: id, Spans: []*triskelev1.Span{span}}); err != nil {
				t.Fatal(err)
			}
			return otlp.Decode(&b, func(again string, copied *triskelev1.Span) error {
				if again != id || copied.GetDuration().AsDuration() != span.GetDuration().AsDuration() || copied.GetDuration().AsDuration() < 0 {
					t.Fatalf("%v became %v", span, copied)
				}
				return nil
			})
		})
	})
}
