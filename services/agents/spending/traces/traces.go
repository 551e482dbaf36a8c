// Package traces fetches recorded traces from where an operator has them: a collector's file, Jaeger, Tempo, or a gateway
// that remembers its recent recalls.
package traces

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxSpans = 2_000_000 // of all traces, which are kept in memory
	maxBody  = 1 << 30   // bytes of one answer
	atATime  = 8         // requests to Tempo, which gives one trace each
)

// Query says which traces to fetch.
type Query struct {
	Service  string // of the gateway
	From, To time.Time
	Limit    int         // traces at most
	Header   http.Header // sent along: a tenant, a token
}

// collection is traces in the making.
type collection struct {
	traces []otlp.Trace
	at     map[string]int // by id
	spans  int
}

func (c *collection) add(id string, span *triskelev1.Span) error {
	if c.spans++; c.spans > maxSpans {
		return fmt.Errorf("more than %d spans are not read at once: ask for less", maxSpans)
	}
	i, known := c.at[id]
	if !known {
		if c.at == nil {
			c.at = map[string]int{}
		}
		i = len(c.traces)
		c.at[id] = i
		c.traces = append(c.traces, otlp.Trace{ID: id})
	}
	c.traces[i].Spans = append(c.traces[i].Spans, span)
	return nil
}

// Read reads OTLP's JSON, such as the lines of a collector's file exporter. The spans of a trace may be anywhere in it.
func Read(r io.Reader) ([]otlp.Trace, error) {
	var c collection
	err := otlp.Decode(r, c.add)
	return c.traces, err
}

// Recent returns the recalls that a gateway remembers. base is the URL of its admin port.
func Recent(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	body, err := q.get(ctx, base, "api/traces", url.Values{"limit": {strconv.Itoa(q.Limit)}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return Read(body)
}

// searchName is what the gateway calls the span of a recall.
const searchName = "search_memory"

// Tempo returns the traces with a recall that a Tempo has. base is the URL of its query API.
func Tempo(ctx context.Context, base string, q Query) ([]otlp.Trace, error) {
	found, err := getJSON[struct {
		Traces []struct {
			TraceID string `json:"traceID"`
		} `json:"traces"`
	}](ctx, q, base, "api/search", url.Values{
		"q":     {fmt.Sprintf("{ resource.service.name = %q && name = %q }", q.Service, searchName)},
		"start": {strconv.FormatInt(q.From.Unix(), 10)}, "end": {strconv.FormatInt(q.To.Unix()+1, 10)}, "limit": {strconv.Itoa(q.Limit)},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		parts = make([][]otlp.Trace, len(found.Traces))
		next  atomic.Int64
		wg    sync.WaitGroup
	)
	for range min(atATime, len(parts)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(parts) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if parts[i], err = tempoTrace(ctx, base, q, found.Traces[i].TraceID); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.Concat(parts...), nil
}

func tempoTrace(ctx context.Context, base string, q Query, id string) ([]otlp.Trace, error) {
	body, err := q.get(ctx, base, "api/traces/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return Read(body)
}

// get asks for a path below base.
func (q Query) get(ctx context.Context, base, path string, values url.Values) (io.ReadCloser, error) {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("%q is no URL such as http://127.0.0.1:16686", base)
	}
	at = at.JoinPath(path)
	at.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range q.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	client := http.Client{CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it wants to be asked at %s instead", to.URL.Redacted()) // headers are for the one that was named
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s: say who asks with --header \"Authorization=Bearer TOKEN\"", at.Redacted(), resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s", at.Redacted(), cmp.Or(resp.Status, "nothing"))
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxBody), resp.Body}, nil
}
