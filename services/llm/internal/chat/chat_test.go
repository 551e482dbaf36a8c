package chat_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/store/queue"
)

func TestRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pace := chat.NewRateLimiter(2 * time.Second)
		at := func(want time.Duration) {
			t.Helper()
			if err := pace.Wait(t.Context()); err != nil || time.Since(start) != want {
				t.Errorf("after %v, want %v; %v", time.Since(start), want, err)
			}
		}
		at(0)
		at(2 * time.Second)
		pace.Delay(time.Minute)
		pace.Delay(time.Second) // shortens nothing
		at(62 * time.Second)
		at(64 * time.Second)
		time.Sleep(time.Hour)
		at(64*time.Second + time.Hour) // what was not used is not made up for
		at(66*time.Second + time.Hour)
		pace.Delay(2 * time.Minute)
		if err := pace.Wait(t.Context()); !errors.Is(err, queue.ErrPaused) || time.Since(start) != 66*time.Second+time.Hour {
			t.Errorf("a long hold: %v after %v", err, time.Since(start))
		}
	})
}
