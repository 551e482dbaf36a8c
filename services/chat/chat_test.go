package chat_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/services/chat"
	"github.com/triskele/triskele/services/queue"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pace := chat.NewPace(2 * time.Second)
		at := func(want time.Duration) {
			t.Helper()
			if err := pace.Wait(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("after %v, want %v; %v", time.Since(start), want, err)
			}
		}
		at(0)
		at(2 * time.Second)
		pace.Hold(time.Minute)
		pace.Hold(time.Second) // shortens nothing
		at(62 * time.Second)
		at(64 * time.Second)
		time.Sleep(time.Hour)
		at(64*time.Second + time.Hour) // what was not used is not made up for
		at(66*time.Second + time.Hour)
		pace.Hold(2 * time.Minute)
		if err := pace.Wait(t.Context()); !errors.Is(err, queue.ErrPaused) || time.Since(start) != 66*time.Second+time.Hour {
			t.Errorf("a long hold: %v after %v", err, time.Since(start))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": 0, "2147483647": 10 * time.Minute,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
		now.AddDate(1, 0, 0).Format(http.TimeFormat):  10 * time.Minute,
	} {
		if got := chat.RetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
