package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrWithdrawn means that a check refused a request. ErrUnchecked means that a check failed; it wraps the check's error.
var (
	ErrWithdrawn = errors.New("sending the text is no longer allowed")
	ErrUnchecked = errors.New("it cannot be told whether the text may be sent")
)

// NotSent reports whether a check kept the text from the server. Such an error says nothing about the server.
func NotSent(err error) bool { return errors.Is(err, ErrWithdrawn) || errors.Is(err, ErrUnchecked) }

type checksKey struct{}

type check func(context.Context) (may bool, err error)

// WithCheck returns a context with one more check. Each attempt of a request runs all checks of its context, once it
// has a connection and before it sends its body.
func WithCheck(ctx context.Context, may func(context.Context) (bool, error)) context.Context {
	return context.WithValue(ctx, checksKey{}, append([]check{may}, checksOf(ctx)...))
}

func checksOf(ctx context.Context) []check {
	c, _ := ctx.Value(checksKey{}).([]check)
	return c
}

// delayBody delays reading a request's body until the checks of its context allow it. The server has the header by then.
func delayBody(req *http.Request) {
	ctx, get := req.Context(), req.GetBody
	checks := checksOf(ctx)
	if len(checks) == 0 {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := get()
		return &checkedBody{body, ctx, checks}, err
	}
	req.Body = &checkedBody{req.Body, ctx, checks}
}

type checkedBody struct {
	io.ReadCloser
	ctx    context.Context
	checks []check // nil once they have passed
}

func (b *checkedBody) Read(p []byte) (int, error) {
	for _, check := range b.checks {
		if may, err := check(b.ctx); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnchecked, err)
		} else if !may {
			return 0, ErrWithdrawn
		}
	}
	b.checks = nil
	return b.ReadCloser.Read(p)
}
