package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	var got atomic.Int64 // bytes
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Add(n)
		_, _ = io.WriteString(w, "fine")
	}))
	t.Cleanup(server.Close)
	e, err := New(server.URL, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	yes := func(context.Context) (bool, error) { return true, nil }
	no := func(context.Context) (bool, error) { return false, nil }
	fails := func(context.Context) (bool, error) { return true, broken }
	for name, x := range map[string]struct {
		checks []func(context.Context) (bool, error)
		want   error
	}{
		"none":             {},
		"lets it pass":     {checks: []func(context.Context) (bool, error){yes}},
		"does not":         {checks: []func(context.Context) (bool, error){no}, want: ErrWithdrawn},
		"cannot tell":      {checks: []func(context.Context) (bool, error){fails}, want: broken},
		"the outer one":    {checks: []func(context.Context) (bool, error){no, yes}, want: ErrWithdrawn},
		"the inner one":    {checks: []func(context.Context) (bool, error){yes, no}, want: ErrWithdrawn},
		"both let it pass": {checks: []func(context.Context) (bool, error){yes, yes}},
	} {
		ctx, before := t.Context(), got.Load()
		for _, check := range x.checks {
			ctx = WithCheck(ctx, check)
		}
		answer, _, err := e.Post(ctx, "x", []byte("canary"), 100)
		if !errors.Is(err, x.want) || NotSent(err) != (x.want != nil) || (err == nil) != (string(answer) == "fine") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		if sent := got.Load() - before; (sent == 6) != (x.want == nil) || sent != 0 && sent != 6 {
			t.Errorf("%s: the server got %d bytes", name, sent)
		}
	}
}
