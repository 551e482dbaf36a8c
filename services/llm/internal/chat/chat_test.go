package chat_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/store/queue"
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
