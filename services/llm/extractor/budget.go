package extractor

import (
	"fmt"
	"sync"
	"time"

	"github.com/triskele/triskele/services/store/queue"
)

// budget bounds what is spent in an hour. The hour begins with the first request after the one before has ended. One
// request can go beyond it, and what goes beyond it is not made up for.
type budget struct {
	perHour int
	mu      sync.Mutex
	began   time.Time
	spent   int
}

// check says whether something may be spent now: queue.ErrPaused if not.
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
