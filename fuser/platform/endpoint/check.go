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

// checks is a linked list of checks, newest first.
type checks struct {
	before *checks
	may    func(context.Context) (bool, error)
}

// WithCheck returns a context with one more check. Each attempt of a request runs all checks of its context, once it
// has a connection and before it sends its body.
func WithCheck(ctx context.Context, may func(context.Context) (bool, error)) context.Context {
	return context.WithValue(ctx, checksKey{}, &checks{checksOf(ctx), may})
}

func checksOf(ctx context.Context) *checks {
	c, _ := ctx.Value(checksKey{}).(*checks)
	return c
}

// delayBody delays reading a request's body until the checks of its context allow it. The server has the header by then.
func delayBody(req *http.Request) {
	ctx, get := req.Context(), req.GetBody
	if checksOf(ctx) == nil {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := get()
		return &checkedBody{ReadCloser: body, ctx: ctx}, err
	}
	req.Body = &checkedBody{ReadCloser: req.Body, ctx: ctx}
}

type checkedBody struct {
	io.ReadCloser
	ctx    context.Context
	passed bool
}

func (b *checkedBody) Read(p []byte) (int, error) {
	for each := checksOf(b.ctx); each != nil && !b.passed; each = each.before {
		if may, err := each.may(b.ctx); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnchecked, err)
		} else if !may {
			return 0, ErrWithdrawn
		}
	}
	b.passed = true
	return b.ReadCloser.Read(p)
}
