// Package otlp reads and writes traces in OTLP's JSON, as far as a waterfall needs them.
//
//  1. Decode reads what a collector's file exporter writes, and what Tempo and Jaeger return, one document after another.
//  2. Each span becomes a triskelev1.Span with its service's name; attributes become text.
//  3. Encode writes a trace as one line, for the gateway's recent recalls.
//
// It accepts OTLP's own JSON and protobuf's JSON, which Tempo uses.
package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Trace is the spans that have one trace id, in any order.
type Trace struct {
	ID    string // 32 lower-case hex digits
	Spans []*triskelev1.Span
}

// document is an ExportTraceServiceRequest, or traces as Tempo and Jaeger return them. Tempo's first API calls the resources
// batches, and its second wraps them in a trace. Jaeger wraps them in a result.
type document struct {
	ResourceSpans []resourceSpans `json:"resourceSpans,omitempty"`
	Batches       []resourceSpans `json:"batches,omitempty"`
	Trace         *document       `json:"trace,omitempty"`
	Result        *document       `json:"result,omitempty"`
}

// resourceSpans are spans in protobuf's JSON. OTLP's own differs from it only in its ids, see id.
type resourceSpans struct{ *tracepb.ResourceSpans }

func (r *resourceSpans) UnmarshalJSON(text []byte) error {
	r.ResourceSpans = &tracepb.ResourceSpans{}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, r.ResourceSpans)
}

func (r resourceSpans) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(r.ResourceSpans)
}

const serviceName = "service.name"

// Decode reads documents, with or without white space between them, and calls add for each span. The first error ends
// it: invalid JSON, an invalid id or time, or add's.
func Decode(r io.Reader, add func(traceID string, span *triskelev1.Span) error) error {
	decoder := json.NewDecoder(r)
	for n := 1; ; n++ {
		var d document
		switch err := decoder.Decode(&d); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("document %d: %w", n, err)
		}
		if err := d.spans(add); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (d document) spans(add func(string, *triskelev1.Span) error) error {
	for _, of := range slices.Concat(d.ResourceSpans, d.Batches) {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == serviceName {
				service = text(a.GetValue())
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				traceID, span, err := message(s, service)
				if err != nil {
					return err
				}
				if err := add(traceID, span); err != nil {
					return err
				}
			}
		}
	}
	for _, inner := range []*document{d.Trace, d.Result} {
		if inner != nil {
			if err := inner.spans(add); err != nil {
				return err
			}
		}
	}
	return nil
}

func message(s *tracepb.Span, service string) (traceID string, out *triskelev1.Span, err error) {
	var ids [3]string
	for i, raw := range [][]byte{s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId()} {
		if ids[i], err = id(raw); err != nil {
			return "", nil, err
		}
	}
	if ids[0] == "" || ids[1] == "" {
		return "", nil, fmt.Errorf("span %q lacks its id or its trace's", s.GetName())
	}
	start, end := s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano()
	if max(start, end) > math.MaxInt64 {
		return "", nil, fmt.Errorf("time %d is out of range", max(start, end))
	}
	out = &triskelev1.Span{
		Id: ids[1], ParentId: ids[2], Name: s.GetName(), Service: service,
		Start:      timestamppb.New(time.Unix(0, int64(start))),
		Duration:   durationpb.New(time.Duration(max(end, start) - start)),
		Attributes: make(map[string]string, len(s.GetAttributes())), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
	}
	for _, a := range s.GetAttributes() {
		out.Attributes[a.GetKey()] = text(a.GetValue())
	}
	return ids[0], out, nil
}

// Encode writes a trace as one line. Attributes become text.
func Encode(w io.Writer, t Trace) error {
	var d document
	for _, of := range t.Spans {
		begin := of.GetStart().AsTime().UnixNano()
		s := &tracepb.Span{
			TraceId: raw(t.ID), SpanId: raw(of.GetId()), ParentSpanId: raw(of.GetParentId()), Name: of.GetName(),
			StartTimeUnixNano: uint64(begin), EndTimeUnixNano: uint64(begin + int64(of.GetDuration().AsDuration())),
		}
		for _, key := range slices.Sorted(maps.Keys(of.GetAttributes())) {
			s.Attributes = append(s.Attributes, attribute(key, of.GetAttributes()[key]))
		}
		if of.GetFailed() {
			s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
		}
		i := slices.IndexFunc(d.ResourceSpans, func(r resourceSpans) bool {
			return r.GetResource().GetAttributes()[0].GetValue().GetStringValue() == of.GetService()
		})
		if i < 0 {
			i = len(d.ResourceSpans)
			d.ResourceSpans = append(d.ResourceSpans, resourceSpans{&tracepb.ResourceSpans{
				Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{attribute(serviceName, of.GetService())}}, ScopeSpans: []*tracepb.ScopeSpans{{}},
			}})
		}
		scope := d.ResourceSpans[i].GetScopeSpans()[0]
		scope.Spans = append(scope.Spans, s)
	}
	return json.NewEncoder(w).Encode(d)
}

// id returns an id as lower-case hex. protobuf's JSON has bytes as base64, as which the hex digits of OTLP's JSON were read.
func id(raw []byte) (string, error) {
	digits := hex.EncodeToString(raw)
	switch len(raw) {
	case 0, 8, 16:
	case 12, 24:
		digits = strings.ToLower(base64.StdEncoding.EncodeToString(raw))
		if _, err := hex.DecodeString(digits); err != nil {
			return "", fmt.Errorf("id %q: %w", digits, err)
		}
	default:
		return "", fmt.Errorf("id %.40s: its length is not that of an id", digits)
	}
	if strings.Trim(digits, "0") == "" {
		return "", nil
	}
	return digits, nil
}

// raw is the inverse of id: protobuf's JSON writes the bytes as the digits.
func raw(id string) []byte {
	bytes, _ := base64.StdEncoding.DecodeString(id) // digits of hex are digits of base64
	return bytes
}

func attribute(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// text is an attribute's value as text. Lists and objects stay JSON.
func text(value *commonpb.AnyValue) string {
	switch v := value.GetValue().(type) {
	case nil:
		return ""
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	}
	return protojson.Format(value)
}
