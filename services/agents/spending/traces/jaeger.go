package traces

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// jaegerTraces is an answer of the HTTP API that Jaeger's own page uses. Times are in microseconds.
type jaegerTraces struct {
	Data []struct {
		TraceID   string       `json:"traceID"`
		Spans     []jaegerSpan `json:"spans"`
		Processes map[string]struct {
			Service string `json:"serviceName"`
		} `json:"processes"`
	} `json:"data"`
}

type jaegerSpan struct {
	TraceID    string `json:"traceID"`
	SpanID     string `json:"spanID"`
	Name       string `json:"operationName"`
	References []struct {
		Type    string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	Start    int64       `json:"startTime"`
	Duration int64       `json:"duration"`
	Tags     []jaegerTag `json:"tags"`
	Process  string      `json:"processID"`
}

type jaegerTag struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Jaeger returns the traces in a Jaeger that have a recall. base is the URL of its page.
func Jaeger(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	found, err := getJSON[jaegerTraces](ctx, q, base, "api/traces", url.Values{
		"service": {q.Service}, "operation": {searchName}, "limit": {strconv.Itoa(q.Limit)},
		"start": {strconv.FormatInt(q.From.UnixMicro(), 10)}, "end": {strconv.FormatInt(q.To.UnixMicro(), 10)},
	})
	if err != nil {
		return nil, err
	}
	var c collection
	for _, trace := range found.Data {
		for _, s := range trace.Spans {
			span, err := s.message(trace.Processes[s.Process].Service)
			if err == nil {
				err = c.add(strings.ToLower(trace.TraceID), span)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return c.traces, nil
}

// longest bounds the duration of a span, in microseconds, so that computations do not overflow.
const longest = int64(24 * time.Hour / time.Microsecond)

func (s jaegerSpan) message(service string) (*triskelev1.Span, error) {
	if s.SpanID == "" || s.Start < 0 || s.Start > time.Unix(1<<33, 0).UnixMicro() || s.Duration < 0 || s.Duration > longest {
		return nil, fmt.Errorf("span %.40q from Jaeger is not valid: it begins at %d µs and takes %d µs", s.SpanID, s.Start, s.Duration)
	}
	out := &triskelev1.Span{
		Id: s.SpanID, Name: s.Name, Service: service, Start: timestamppb.New(time.UnixMicro(s.Start)),
		Duration: durationpb.New(time.Duration(s.Duration) * time.Microsecond), Attributes: make(map[string]string, len(s.Tags)),
	}
	for _, ref := range s.References {
		if ref.TraceID == s.TraceID && (ref.Type == "CHILD_OF" || out.ParentId == "") {
			out.ParentId = ref.SpanID
		}
	}
	for _, tag := range s.Tags {
		var text string
		if json.Unmarshal(tag.Value, &text) != nil { // a number, true or false
			text = string(tag.Value)
		}
		out.Attributes[tag.Key] = text
	}
	out.Failed = out.Attributes["error"] == "true"
	return out, nil
}

// getJSON reads a value from a path below base.
func getJSON[T any](ctx context.Context, q Query, base, path string, values url.Values) (out T, err error) {
	body, err := q.get(ctx, base, path, values)
	if err != nil {
		return out, err
	}
	defer func() { _ = body.Close() }()
	if err := json.NewDecoder(body).Decode(&out); err != nil {
		return out, fmt.Errorf("%s/%s: the answer is not the expected JSON: %w", strings.TrimSuffix(base, "/"), path, err)
	}
	return out, nil
}
