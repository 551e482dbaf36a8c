// Package traces reads recorded traces: OTLP JSON of a collector, of Jaeger or of Tempo, or the recent recalls that a gateway keeps.
package traces

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxSpans = 2_000_000 // of all traces, which are kept in memory
	maxBody  = 1 << 30   // bytes of an answer
)

// Read reads OTLP JSON, such as the lines of a collector's file exporter. The spans of a trace may be in any order.
func Read(r io.Reader) (traces []otlp.Trace, err error) {
	at, spans := map[string]int{}, 0 // places of traces, by id
	err = otlp.Decode(r, func(id string, span *triskelev1.Span) error {
		if spans++; spans > maxSpans {
			return fmt.Errorf("the traces have more than %d spans: ask for fewer traces", maxSpans)
		}
		i, known := at[id]
		if !known {
			i = len(traces)
			at[id] = i
			traces = append(traces, otlp.Trace{ID: id})
		}
		traces[i].Spans = append(traces[i].Spans, span)
		return nil
	})
	return traces, err
}

// Recent returns up to limit recent recalls of a gateway. base is the URL of its admin port. The request has header, such as a token.
func Recent(ctx context.Context, base string, limit int, header map[string]string) ([]otlp.Trace, error) {
	at, err := url.Parse(base)
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("%q is not a URL such as http://127.0.0.1:7410", base)
	}
	at = at.JoinPath("api/traces")
	at.RawQuery = url.Values{"limit": {strconv.Itoa(limit)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		req.Header.Set(strings.TrimSpace(name), value)
	}
	client := http.Client{CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		// The headers are meant for the named server alone.
		return fmt.Errorf("it redirects to %s: name that URL instead", to.URL.Redacted())
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %s: say who asks with --header \"Authorization=Bearer TOKEN\", with a token that has the scope admin in the namespace *", at.Redacted(), resp.Status)
	default:
		return nil, fmt.Errorf("%s answers %s", at.Redacted(), resp.Status)
	}
	all, err := Read(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		at.RawQuery = ""
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return all, nil
}
