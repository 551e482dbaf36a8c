// Package otlp reads and writes traces in OTLP's JSON, as far as a waterfall needs them.
//
//  1. Decode reads what a collector's file exporter writes, and what Tempo returns, one document after another.
//  2. Each span becomes a triskelev1.Span with its service's name; attributes become text.
//  3. Encode writes a trace as one line, for the gateway's recent recalls.
//
// The UnmarshalJSON methods accept OTLP's own JSON and protobuf's JSON, which Tempo uses.
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

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Trace is the spans that have one trace id, in any order.
type Trace struct {
	ID    string // 32 lower-case hex digits
	Spans []*triskelev1.Span
}

// document is an ExportTraceServiceRequest, or a trace as Tempo returns it. Tempo's first API calls the resources
// batches, and its second wraps them in a trace.
type document struct {
	ResourceSpans []resourceSpans `json:"resourceSpans,omitempty"`
	Batches       []resourceSpans `json:"batches,omitempty"`
	Trace         *document       `json:"trace,omitempty"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Spans []span `json:"spans"`
}

type span struct {
	TraceID    id          `json:"traceId"`
	SpanID     id          `json:"spanId"`
	ParentID   id          `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Start      nanos       `json:"startTimeUnixNano"`
	End        nanos       `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Status     *status     `json:"status,omitempty"`
}

type status struct {
	Code code `json:"code,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
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
		for _, a := range of.Resource.Attributes {
			if a.Key == serviceName {
				service = string(a.Value)
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				if s.TraceID == "" || s.SpanID == "" {
					return fmt.Errorf("span %q lacks its id or its trace's", s.Name)
				}
				if err := add(string(s.TraceID), s.message(service)); err != nil {
					return err
				}
			}
		}
	}
	if d.Trace != nil {
		return d.Trace.spans(add)
	}
	return nil
}

func (s span) message(service string) *triskelev1.Span {
	out := &triskelev1.Span{
		Id: string(s.SpanID), ParentId: string(s.ParentID), Name: s.Name, Service: service,
		Start:      timestamppb.New(time.Unix(0, int64(s.Start))),
		Duration:   durationpb.New(time.Duration(max(s.End, s.Start) - s.Start)),
		Attributes: make(map[string]string, len(s.Attributes)), Failed: s.Status != nil && s.Status.Code == failed,
	}
	for _, a := range s.Attributes {
		out.Attributes[a.Key] = string(a.Value)
	}
	return out
}

// Encode writes a trace as one line. Attributes become text.
func Encode(w io.Writer, t Trace) error {
	var d document
	for _, of := range t.Spans {
		begin := of.GetStart().AsTime().UnixNano()
		s := span{
			TraceID: id(t.ID), SpanID: id(of.GetId()), ParentID: id(of.GetParentId()), Name: of.GetName(),
			Start: nanos(begin), End: nanos(begin + int64(of.GetDuration().AsDuration())),
		}
		for _, key := range slices.Sorted(maps.Keys(of.GetAttributes())) {
			s.Attributes = append(s.Attributes, attribute{key, value(of.GetAttributes()[key])})
		}
		if of.GetFailed() {
			s.Status = &status{failed}
		}
		service := []attribute{{serviceName, value(of.GetService())}}
		i := slices.IndexFunc(d.ResourceSpans, func(r resourceSpans) bool { return r.Resource.Attributes[0] == service[0] })
		if i < 0 {
			i = len(d.ResourceSpans)
			d.ResourceSpans = append(d.ResourceSpans, resourceSpans{resource{service}, []scopeSpans{{}}})
		}
		scope := &d.ResourceSpans[i].ScopeSpans[0]
		scope.Spans = append(scope.Spans, s)
	}
	return json.NewEncoder(w).Encode(d)
}

// id is a trace's or a span's in lower-case hex. OTLP has hex, and protobuf's JSON, which Tempo uses, base64.
type id string

// UnmarshalJSON implements json.Unmarshaler.
func (i *id) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	var raw []byte
	var err error
	switch len(s) {
	case 0:
		*i = ""
		return nil
	case 16, 32:
		raw, err = hex.DecodeString(s)
	case 12, 24:
		raw, err = base64.StdEncoding.DecodeString(s)
	default:
		err = errors.New("its length is not that of an id")
	}
	if err != nil {
		return fmt.Errorf("id %.40q: %w", s, err)
	}
	if *i = id(hex.EncodeToString(raw)); strings.Trim(string(*i), "0") == "" {
		*i = ""
	}
	return nil
}

// nanos is a time since 1970, a string in JSON, whose numbers are too short.
type nanos int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *nanos) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64)
	if err != nil || value > math.MaxInt64 {
		return fmt.Errorf("time %.40s is out of range", text)
	}
	*n = nanos(value)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (n nanos) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `"%d"`, int64(n)), nil }

// code of a status.
type code int

const failed code = 2

// UnmarshalJSON implements json.Unmarshaler.
func (c *code) UnmarshalJSON(text []byte) error {
	if string(text) == "2" || string(text) == `"STATUS_CODE_ERROR"` {
		*c = failed
	}
	return nil
}

// value is an attribute's value as text. Lists and objects stay JSON.
type value string

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(text []byte) error {
	var of map[string]json.RawMessage // one of stringValue, intValue, boolValue, doubleValue, …
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		var s string
		if json.Unmarshal(of[kind], &s) != nil { // a number, true or false
			s = string(of[kind])
		}
		*v = value(s)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (v value) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"stringValue": string(v)})
}
