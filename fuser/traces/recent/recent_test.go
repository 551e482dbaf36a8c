package recent_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/traces/recent"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var origin = time.Date(2026, 3, 14, 9, 26, 50, 0, time.UTC)

func recalled(took time.Duration) *recent.Recall {
	return &recent.Recall{TraceID: "0000000000000000000000000000000a", Start: origin, Took: took, Budget: time.Second, Legs: []recent.Leg{
		{Name: "dense", State: triskelev1.LegState_LEG_STATE_OK, Start: time.Millisecond, Spent: took / 2, Budget: 800 * time.Millisecond, Hits: 3},
	}}
}

func TestTheLastAreKept(t *testing.T) {
	ring := recent.New()
	for i := range 5000 {
		r := recalled(time.Duration(i) * time.Microsecond)
		if i == 3 {
			r.Degraded = "This recall is incomplete."
		}
		ring.Add(r)
	}
	got := ring.Recalls(recent.All, 10_000)
	if len(got) != 2048 || got[0].ID != 5000 || got[2047].ID != 5000-2047 {
		t.Errorf("%d recalls from %d to %d", len(got), got[0].ID, got[len(got)-1].ID)
	}
	if got := ring.Recalls(recent.All, 3); len(got) != 3 || got[2].ID != 4998 {
		t.Errorf("of three: %v", got)
	}
	if got := ring.Recalls(recent.Degraded, 10); len(got) != 1 || got[0].ID != 4 || ring.Recall(4) != got[0] {
		t.Errorf("degraded: %v", got)
	}
	if ring.Recall(5) != nil {
		t.Error("one is remembered for ever")
	}
	if got := ring.Recalls(recent.Slow, 10_000); len(got) != 256 || got[0].ID != 5000 {
		t.Errorf("%d slow ones", len(got))
	}
}

func TestSlowIsSlowerThanUsual(t *testing.T) {
	ring := recent.New()
	for range 512 {
		ring.Add(recalled(10 * time.Millisecond))
	}
	ring.Add(recalled(11 * time.Millisecond))
	ring.Add(recalled(9 * time.Millisecond))
	if got := ring.Recalls(recent.Slow, 10); len(got) != 1 || got[0].Took != 11*time.Millisecond {
		t.Errorf("slow: %v", got)
	}
}

func TestSpansAreBounded(t *testing.T) {
	ring := recent.New()
	for range 100 {
		r := recalled(time.Millisecond)
		r.Degraded = "incomplete"
		for i := range 400 {
			r.Spans = append(r.Spans, &triskelev1.Span{Id: fmt.Sprintf("%016x", i+1)})
		}
		ring.Add(r)
	}
	spans := 0
	for _, r := range ring.Recalls(recent.All, 1000) {
		spans += len(r.Spans)
	}
	if spans != 20_000 {
		t.Errorf("%d spans are kept", spans)
	}
	if oldest := ring.Recalls(recent.Degraded, 1000)[99]; oldest.Spans != nil || len(oldest.Trace().Spans) != 2 {
		t.Errorf("the oldest has %d spans, and %d in its outline", len(oldest.Spans), len(oldest.Trace().Spans))
	}
}

func TestLive(t *testing.T) {
	ring := recent.New()
	for i := range 100 {
		r := recalled(time.Duration(i+1) * time.Millisecond)
		r.Start = origin.Add(-r.Took) // all end in the same step
		if i == 0 {
			r.Legs[0].State = triskelev1.LegState_LEG_STATE_SKIPPED
		}
		if i == 1 {
			r.Legs[0].State = triskelev1.LegState_LEG_STATE_TIMED_OUT
		}
		ring.Add(r)
	}
	old := recalled(time.Millisecond)
	old.Start = origin.Add(-50 * time.Minute)
	live := ring.Live(origin)
	if len(live) != 2 || live[0].Leg != recent.Whole || live[1].Leg != "dense" {
		t.Fatalf("%+v", live)
	}
	for _, x := range []struct {
		what      string
		got, want time.Duration
	}{
		{"p50", live[0].P50, 50 * time.Millisecond}, {"p95", live[0].P95, 95 * time.Millisecond}, {"p99", live[0].P99, 99 * time.Millisecond},
		{"p95 of dense", live[1].P95, 48 * time.Millisecond}, {"budget of dense", live[1].Budget, 800 * time.Millisecond},
	} {
		if off := float64(x.got)/float64(x.want) - 1; off > 0.06 || off < -0.06 {
			t.Errorf("%s is %v, want about %v", x.what, x.got, x.want)
		}
	}
	if live[1].Searches != 99 || live[1].States[triskelev1.LegState_LEG_STATE_SKIPPED] != 1 || len(live[1].Series) != 1 || live[1].Series[0].Lacking != 1 {
		t.Errorf("dense %+v", live[1])
	}
	ring.Add(old)
	if all := ring.Live(origin); all[0].Searches != 101 || len(all[0].Series) != 2 {
		t.Errorf("all the time: %+v", all[0])
	}
	if none := ring.Live(origin.Add(time.Hour + 10*time.Minute)); none[0].Searches != 0 || none[0].P95 != 0 {
		t.Errorf("an hour later: %+v", none[0])
	}
}

// TestClockPutBack: steps from a time when the clock was ahead give way to those that follow.
func TestClockPutBack(t *testing.T) {
	ring, ahead := recent.New(), recalled(time.Millisecond)
	ahead.Start = origin.Add(2 * time.Hour)
	ring.Add(ahead)
	ring.Add(recalled(time.Millisecond))
	for _, live := range ring.Live(origin.Add(time.Second)) {
		if live.Searches != 1 {
			t.Errorf("%q: got %d searches, want 1", live.Leg, live.Searches)
		}
	}
}

func TestRingIsSafe(t *testing.T) {
	ring := recent.New()
	const writers, each = 4, 500
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				r := recalled(time.Millisecond)
				r.Spans = make([]*triskelev1.Span, 100)
				ring.Add(r)
				for _, r := range ring.Recalls(recent.All, 5) {
					if got := len(r.Trace().Spans); got == 0 {
						t.Errorf("recall %d: got no span in its trace, want some", r.ID)
					}
				}
				ring.Live(origin)
			}
		})
	}
	wg.Wait()
	got := ring.Recalls(recent.All, 2*writers*each)
	if len(got) != writers*each {
		t.Fatalf("got %d recalls, want %d", len(got), writers*each)
	}
	for i, r := range got {
		if want := uint64(writers*each - i); r.ID != want {
			t.Fatalf("got recall %d at %d, want %d", r.ID, i, want)
		}
	}
	if live := ring.Live(origin); live[0].Searches != writers*each {
		t.Errorf("got %d recalls in the figures, want %d", live[0].Searches, writers*each)
	}
}

func BenchmarkAdd(b *testing.B) {
	ring := recent.New()
	for b.Loop() {
		ring.Add(recalled(time.Millisecond))
	}
}
