// Package endpoint posts JSON to servers that an operator has named.
//
//  1. New checks the address: it has no user, password or query. A key needs https, unless the server is local.
//  2. WithCheck adds a check to a context: may the text still be sent?
//  3. Post sends the header, runs the checks, and then sends the body. Each attempt runs them again.
//  4. Post follows no redirect and reads at most limit bytes of the answer.
//  5. Its errors have neither the address nor the server's text, which may quote the request.
//
// The caller decides what a failure means, and whether to retry.
package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Endpoint is one server. It may be used concurrently.
type Endpoint struct {
	URL    *url.URL // without a slash at its end
	key    string
	client *http.Client
}

// New checks an address and sends nothing. A key that is not empty is sent as a bearer token. idle is how many idle
// connections are kept; 0 is net/http's default.
func New(address, key string, idle int) (*Endpoint, error) {
	server, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" || server.User != nil || server.RawQuery != "" {
		return nil, errors.New("the server's address must be a URL like http://127.0.0.1:8080, without user, password or query")
	}
	e := &Endpoint{URL: server, key: key, client: &http.Client{
		// A redirect would carry texts to a server that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if key != "" && server.Scheme == "http" && !e.Local() {
		return nil, fmt.Errorf("the key would cross the network to %s unencrypted: use https", server.Host)
	}
	if idle > 0 {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = idle
		e.client.Transport = transport
	}
	return e, nil
}

// Local reports whether the server is on this machine.
func (e *Endpoint) Local() bool {
	ip := net.ParseIP(e.URL.Hostname())
	return e.URL.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Code  int
	After time.Duration // from the header Retry-After, or 0
}

func (e *StatusError) Error() string { return "HTTP status " + strconv.Itoa(e.Code) }

// ErrTooLong means an answer beyond the limit.
var ErrTooLong = errors.New("the answer is too long")

// Post sends a body to a path below the server's address. It returns the answer, of at most limit bytes, and its
// header. Errors are a *StatusError, ErrTooLong, ErrWithdrawn, ErrUnchecked or the transport's.
func (e *Endpoint) Post(ctx context.Context, path string, body []byte, limit int64) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("the request cannot be built")
	}
	delayBody(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		// A short answer is read, so that its connection can be used again. Unread bytes close it.
		_, _ = io.CopyN(io.Discard, resp.Body, 4096)
		return nil, nil, &StatusError{resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, nil, withoutURL(err)
	case int64(len(answer)) > limit:
		return nil, nil, ErrTooLong
	}
	return answer, resp.Header, nil
}

// withoutURL drops the URL that http.Client puts into its errors.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// retryAfter parses Retry-After, in seconds or as a date (RFC 9110, section 10.2.3). It returns 0 for anything else,
// or a time that has passed.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
