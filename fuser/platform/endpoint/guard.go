package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// ErrWithdrawn is the error of a request that a guard has not let pass.
var ErrWithdrawn = errors.New("the text may not be sent any more")

type guardKey struct{}

// guards are one, and those that were there before.
type guards struct {
	before *guards
	may    func(context.Context) (bool, error)
}

// Guard returns a context whose requests ask, right before what they say leaves this process, whether it still may: when
// there is a connection, and anew at each attempt. The guards that ctx has are asked too.
func Guard(ctx context.Context, may func(context.Context) (bool, error)) context.Context {
	return context.WithValue(ctx, guardKey{}, &guards{guardsOf(ctx), may})
}

func guardsOf(ctx context.Context) *guards {
	g, _ := ctx.Value(guardKey{}).(*guards)
	return g
}

// guard has nothing of a request's body read before the guards of its context have let it pass. By then the server has the
// header.
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
