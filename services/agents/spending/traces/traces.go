// Package traces fetches recorded traces from a collector's file, from Jaeger, from Tempo, or from a gateway, which keeps its
// recent recalls. All four give the same type: OTLP traces with the spans of package triskelev1.
package traces

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxSpans    = 2_000_000 // of all traces, which are kept in memory
	maxBody     = 1 << 30   // bytes of one answer
	concurrency = 8         // requests to Tempo, each for one trace
)

// Query says which traces to fetch.
type Query struct {
	Service  string // the gateway's name in the traces
	From, To time.Time
	Limit    int               // traces at most
	Header   map[string]string // of each request, such as a tenant or a token
}

// collection groups spans by trace.
type collection struct {
	traces []otlp.Trace
	at     map[string]int // by id
	spans  int
}

func (c *collection) add(id string, span *triskelev1.Span) error {
	if c.spans++; c.spans > maxSpans {
		return fmt.Errorf("the traces have more than %d spans: ask for fewer traces", maxSpans)
	}
	i, known := c.at[id]
	if !known {
		i = len(c.traces)
		c.at[id] = i
		c.traces = append(c.traces, otlp.Trace{ID: id})
	}
	c.traces[i].Spans = append(c.traces[i].Spans, span)
	return nil
}

// Read reads OTLP JSON, such as the lines of a collector's file exporter. The spans of a trace may be in any order.
func Read(r io.Reader) ([]otlp.Trace, error) {
	c := collection{at: map[string]int{}}
	err := otlp.Decode(r, c.add)
	return c.traces, err
}

// Recent returns the recent recalls of a gateway. base is the URL of its admin port.
func Recent(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	return q.read(ctx, base, "api/traces", url.Values{"limit": {strconv.Itoa(q.Limit)}})
}

// Jaeger returns the traces in a Jaeger that have a recall. base is the URL of its page, below which version 3 of its API answers with OTLP.
func Jaeger(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	limit := strconv.Itoa(q.Limit)
	return q.read(ctx, base, "api/v3/traces", url.Values{
		"query.service_name": {q.Service}, "query.operation_name": {searchName},
		"query.start_time_min": {q.From.UTC().Format(time.RFC3339Nano)}, "query.start_time_max": {q.To.UTC().Format(time.RFC3339Nano)},
		"query.num_traces": {limit}, "query.search_depth": {limit}, // as Jaeger 1 calls it, and as Jaeger 2 does
	})
}

// searchName is the name of the gateway's span of a recall.
const searchName = "search_memory"

// Tempo returns the traces in a Tempo that have a recall. base is the URL of its query API.
func Tempo(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	var found struct {
		Traces []struct {
			TraceID string `json:"traceID"`
		} `json:"traces"`
	}
	if err := q.get(ctx, base, "api/search", url.Values{
		"q":     {fmt.Sprintf("{ resource.service.name = %q && name = %q }", q.Service, searchName)},
		"start": {strconv.FormatInt(q.From.Unix(), 10)}, "end": {strconv.FormatInt(q.To.Unix()+1, 10)}, "limit": {strconv.Itoa(q.Limit)},
	}, func(answer io.Reader) error { return json.NewDecoder(answer).Decode(&found) }); err != nil {
		return nil, err
	}
	parts := make([][]otlp.Trace, len(found.Traces))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i, trace := range found.Traces {
		group.Go(func() (err error) {
			parts[i], err = q.read(ctx, base, "api/traces/"+url.PathEscape(trace.TraceID), nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

// read reads OTLP JSON from a path below base.
func (q Query) read(ctx context.Context, base, path string, values url.Values) (all []otlp.Trace, err error) {
	err = q.get(ctx, base, path, values, func(answer io.Reader) (err error) {
		all, err = Read(answer)
		return err
	})
	return all, err
}

// noTraces is in Jaeger's answer, a 404, if it has no such traces.
const noTraces = "No traces found"

// get sends a GET request for a path below base, and has decode read the answer.
func (q Query) get(ctx context.Context, base, path string, values url.Values, decode func(io.Reader) error) error {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" {
		return fmt.Errorf("%q is not a URL such as http://127.0.0.1:16686", base)
	}
	at = at.JoinPath(path)
	at.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	for name, value := range q.Header {
		req.Header.Set(strings.TrimSpace(name), value)
	}
	req.Header.Set("Accept", "application/json")
	client := http.Client{CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		// The headers are meant for the named server alone.
		return fmt.Errorf("it redirects to %s: name that URL instead", to.URL.Redacted())
	}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s answers %s: say who asks with --header \"Authorization=Bearer TOKEN\", for a gateway with a token that has the scope admin in the namespace *", at.Redacted(), resp.Status)
	default:
		if text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)); resp.StatusCode == http.StatusNotFound && strings.Contains(string(text), noTraces) {
			return nil
		}
		return fmt.Errorf("%s answers %s", at.Redacted(), resp.Status)
	}
	if err := decode(io.LimitReader(resp.Body, maxBody)); err != nil {
		at.RawQuery = ""
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return nil
}
