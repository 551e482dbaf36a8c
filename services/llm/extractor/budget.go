package extractor

import (
	"fmt"
	"sync"
	"time"

	"github.com/triskele/triskele/services/store/queue"
)

// budget bounds the tokens of an hour. An hour begins with the first request after the previous hour. One request can exceed
// the budget, and the excess is not deducted from the next hour.
type budget struct {
	perHour int
	mu      sync.Mutex
	began   time.Time
	spent   int
}

func (b *budget) check(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.began) < time.Hour && b.spent >= b.perHour {
		return fmt.Errorf("%w: the hour's %d tokens are spent", queue.ErrPaused, b.perHour)
	}
	return nil
}

func (b *budget) spend(now time.Time, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.began) >= time.Hour {
		b.began, b.spent = now, 0
	}
	b.spent += tokens
}
