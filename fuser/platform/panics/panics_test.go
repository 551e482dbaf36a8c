package panics_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
)

func TestCatch(t *testing.T) {
	boom := errors.New("boom")
	var rows []int
	for name, x := range map[string]struct {
		task   func() error
		err    string
		logged string
	}{
		"returns":         {task: func() error { return nil }},
		"fails":           {task: func() error { return boom }, err: "boom"},
		"panics":          {task: func() error { panic("the secret text") }, err: "panic (string)", logged: `panic=string`},
		"with an error":   {task: func() error { panic(errors.New("the secret text")) }, err: "panic (*errors.errorString)", logged: `panic=*errors.errorString`},
		"a runtime error": {task: func() error { _ = rows[3]; return nil }, err: "index out of range [3] with length 0", logged: "index out of range"},
	} {
		var out bytes.Buffer
		before := panics.Count()
		err := panics.Catch(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "my task", x.task)
		if (err != nil) != (x.err != "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: got error %v, want %q", name, err, x.err)
		}
		var caught *panics.Error
		if got, want := errors.As(err, &caught), x.logged != ""; got != want {
			t.Errorf("%s: is a panic: got %v, want %v", name, got, want)
		}
		if got, want := panics.Count()-before > 0, x.logged != ""; got != want {
			t.Errorf("%s: counted: got %v, want %v", name, got, want)
		}
		if x.logged == "" && out.Len() > 0 {
			t.Errorf("%s: got %q in the log, want nothing", name, &out)
		}
		for _, want := range []string{x.logged, `task="my task"`, "panics_test.go"} {
			if x.logged != "" && !strings.Contains(out.String(), want) {
				t.Errorf("%s: got %q in the log, want %q", name, &out, want)
			}
		}
		if strings.Contains(out.String(), "secret") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the value of the panic is told: %v, %s", name, err, &out)
		}
	}
}

func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		var began []time.Duration
		panics.Keep(ctx, slog.New(slog.DiscardHandler), "task", func(ctx context.Context) {
			began = append(began, time.Since(start))
			switch len(began) {
			case 3:
				time.Sleep(2 * time.Minute) // it works for a while, so that the next pause is short again
			case 4:
				<-ctx.Done()
				return
			}
			panic("oh")
		})
		if want := []time.Duration{0, time.Second, 3 * time.Second, 2*time.Minute + 4*time.Second}; !slices.Equal(began, want) {
			t.Errorf("got runs at %v, want %v", began, want)
		}
		if got := time.Since(start); got != time.Hour {
			t.Errorf("kept for %v, want until the context ended after %v", got, time.Hour)
		}
	})
}
