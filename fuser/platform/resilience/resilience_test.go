package resilience_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/fuser/platform/resilience"
)

const ms = time.Millisecond

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []bool
		b := resilience.NewBreaker(func(open bool) { changes = append(changes, open) })
		call := func(r error) bool {
			done, err := b.Allow()
			if err == nil {
				done(r)
			}
			return err == nil
		}
		for range 4 {
			call(resilience.ErrFailure)
		}
		for range 10 {
			call(resilience.ErrIgnored)
		}
		if !call(resilience.ErrFailure) || call(nil) {
			t.Error("five failures in a row did not open it")
		}
		time.Sleep(time.Second + ms)
		probe, err := b.Allow()
		if _, second := b.Allow(); err != nil || second == nil {
			t.Errorf("after a second: one call %v, another %v", err, second)
		}
		probe(resilience.ErrIgnored)
		if !call(resilience.ErrFailure) || call(nil) {
			t.Error("an ignored probe must leave room for another, and a failed one must open the breaker again")
		}
		time.Sleep(time.Second + ms)
		for range 2 {
			if !call(nil) {
				t.Error("it stayed open although the probe succeeded")
			}
		}
		if len(changes) != 2 || !changes[0] || changes[1] {
			t.Errorf("changes %v", changes)
		}
		// Half of the calls failing is enough too, if they are not few.
		for i := range 24 {
			call([]error{nil, resilience.ErrFailure}[(i+1)%2])
		}
		if call(nil) {
			t.Error("half of the calls failed")
		}
	})
}

// TestLoad overloads a service that keeps up with 20 calls at a time: beyond, all are slow.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l resilience.Load
		sheds := func(order int) bool { return l.Pressure().Sheds(order) }
		run := func(calls int, slow bool, windows int) {
			for range windows {
				for range calls {
					time.Sleep(100 * ms / time.Duration(calls))
					l.Answered(slow)
				}
			}
		}
		var ends []func()
		begin := func(n int) {
			for range n {
				ends = append(ends, l.Begin())
			}
		}
		begin(40)
		run(40, false, 20)
		if sheds(1) || sheds(9) {
			t.Fatal("no answer was slow")
		}
		run(40, true, 2)
		if !sheds(1) || sheds(0) {
			t.Fatal("what comes first must go, what must come must stay")
		}
		if sheds(3) {
			t.Fatal("what comes last went too soon")
		}
		run(40, true, 20)
		if limit := l.Pressure().Limit; !sheds(3) || limit > 5 {
			t.Fatalf("everything is slow, and the limit %v", limit)
		}
		for _, end := range ends[:38] {
			end()
		}
		run(40, false, 1)
		if sheds(1) {
			t.Error("two calls at a time are never too many")
		}
		begin(38)
		run(40, false, 60)
		if sheds(1) {
			t.Error("it did not recover")
		}
		// Few slow answers, and limits nobody confirms, mean nothing.
		run(5, true, 3)
		if sheds(1) {
			t.Error("five slow answers are too few")
		}
		run(40, true, 20)
		time.Sleep(2 * time.Second)
		if sheds(1) {
			t.Error("the limit outlived its evidence")
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l resilience.Latency
		for i := range 31 {
			l.Add(time.Duration(i) * ms)
		}
		if l.P95() != 0 || l.Median() != 0 {
			t.Errorf("got %v and %v of 31 calls, want 0", l.P95(), l.Median())
		}
		for i := range 1000 {
			l.Add(time.Duration(i%100) * ms)
		}
		time.Sleep(10 * time.Second)
		if p := l.P95(); p < 93*ms || p > 97*ms {
			t.Errorf("p95 %v", p)
		}
		if m := l.Median(); m < 40*ms || m > 60*ms {
			t.Errorf("median %v", m)
		}
		time.Sleep(ms)
		if p := l.P95(); p != 0 {
			t.Errorf("p95 %v, of calls that are long past", p)
		}
		if l.Add(ms); l.P95() == 0 {
			t.Error("what is known counts again with the next call")
		}
	})
}

func TestHedge(t *testing.T) {
	hang := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	after := func(d time.Duration, s string, err error) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			select {
			case <-time.After(d):
				return s, err
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	boom := errors.New("boom")
	for name, x := range map[string]struct {
		first, second func(context.Context) (string, error)
		want          string
		err           string
		hedged        bool
		takes         time.Duration
	}{
		"fast":                {first: after(5*ms, "a", nil), want: "a", takes: 5 * ms},
		"slow":                {first: hang, second: after(5*ms, "b", nil), want: "b", hedged: true, takes: 15 * ms},
		"first wins after":    {first: after(12*ms, "a", nil), second: after(5*ms, "b", nil), want: "a", hedged: true, takes: 12 * ms},
		"fails at once":       {first: after(0, "", boom), err: "boom"},
		"second fails":        {first: after(20*ms, "a", nil), second: after(0, "", boom), want: "a", hedged: true, takes: 20 * ms},
		"both fail":           {first: after(20*ms, "", boom), second: after(0, "", errors.New("bang")), err: "bang", hedged: true, takes: 20 * ms},
		"panics":              {first: func(context.Context) (string, error) { panic("oh") }, err: "panic (string)"},
		"nobody ever answers": {first: hang, second: hang, err: "deadline", hedged: true, takes: 50 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			calls := []func(context.Context) (string, error){x.first, x.second}
			ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
			defer cancel()
			start := time.Now()
			got, hedged, err := resilience.Hedge(ctx, slog.New(slog.DiscardHandler), 10*ms, func(ctx context.Context) (string, error) {
				mu.Lock()
				call := calls[0]
				calls = calls[1:]
				mu.Unlock()
				return call(ctx)
			})
			if got != x.want || hedged != x.hedged || (err != nil) != (x.err != "") || err != nil && !strings.Contains(err.Error(), x.err) || time.Since(start) != x.takes {
				t.Errorf("%s: %q, hedged %v, %v after %v", name, got, hedged, err, time.Since(start))
			}
			synctest.Wait()
		})
	}
}
