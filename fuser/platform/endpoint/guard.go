package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// ErrWithdrawn means that a guard refused a request.
var ErrWithdrawn = errors.New("the text may not be sent any more")

type guardKey struct{}

// guards is a linked list of guards, newest first.
type guards struct {
	before *guards
	may    func(context.Context) (bool, error)
}

// Guard returns a context with one more guard. Each attempt of a request asks all guards of its context, once it has
// a connection and before it sends its body.
func Guard(ctx context.Context, may func(context.Context) (bool, error)) context.Context {
	return context.WithValue(ctx, guardKey{}, &guards{guardsOf(ctx), may})
}

func guardsOf(ctx context.Context) *guards {
	g, _ := ctx.Value(guardKey{}).(*guards)
	return g
}

// guard delays reading a request's body until the guards of its context allow it. The server has the header by then.
func guard(req *http.Request) {
	ctx, get := req.Context(), req.GetBody
	if guardsOf(ctx) == nil {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := get()
		return &guarded{ReadCloser: body, ctx: ctx}, err
	}
	req.Body = &guarded{ReadCloser: req.Body, ctx: ctx}
}

type guarded struct {
	io.ReadCloser
	ctx    context.Context
	passed bool
}

func (g *guarded) Read(p []byte) (int, error) {
	for each := guardsOf(g.ctx); each != nil && !g.passed; each = each.before {
		if may, err := each.may(g.ctx); err != nil {
			return 0, err
		} else if !may {
			return 0, ErrWithdrawn
		}
	}
	g.passed = true
	return g.ReadCloser.Read(p)
}
