// Package endpoint posts JSON to servers that an operator has named, and to nobody else: it follows no redirect, sends no key
// over a network in plain text and reads no more than it is told to. Its errors have neither the address nor what the server
// wrote, which may quote what it was sent. What a failure means, and whether to try again, is for the caller to say.
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

// New checks an address and sends nothing. The key is sent as a bearer token if it is not empty. idle is how many connections
// are kept open for the next request; 0 leaves that to net/http.
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

// Local says whether the server is on this machine.
func (e *Endpoint) Local() bool {
	ip := net.ParseIP(e.URL.Hostname())
	return e.URL.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Code  int
	After time.Duration // what the server asks to be left alone for; 0 if it does not
}

func (e *StatusError) Error() string { return "HTTP status " + strconv.Itoa(e.Code) }

// ErrTooLong is an answer beyond the limit.
var ErrTooLong = errors.New("the answer is too long")

// Post sends a body to a path below the server's address and returns the answer, of at most limit bytes, and its header.
// Errors are a *StatusError, ErrTooLong, ErrWithdrawn, the guards' or the transport's.
func (e *Endpoint) Post(ctx context.Context, path string, body []byte, limit int64) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("the request cannot be made")
	}
	guard(req)
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
		// What is left unread closes the connection; a short answer is read so that it can be used again.
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
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// retryAfter reads the header of this name, in seconds or as a date (RFC 9110, section 10.2.3); 0 if it is neither, or a time
// that has passed.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
