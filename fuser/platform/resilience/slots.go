package resilience

import "context"

// Slots limits how many calls run at a time. The zero value has no limit. It is safe for concurrent use.
type Slots struct{ taken chan struct{} }

// NewSlots returns a limit of n calls; 0 is none.
func NewSlots(n int) Slots {
	if n == 0 {
		return Slots{}
	}
	return Slots{make(chan struct{}, n)}
}

// Take waits for a free slot until ctx ends, and says whether there was one; if so, Free must follow.
func (s Slots) Take(ctx context.Context) bool {
	if s.taken == nil {
		return true
	}
	select {
	case s.taken <- struct{}{}:
		return true
	default:
	}
	select {
	case s.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Free gives a slot back.
func (s Slots) Free() {
	if s.taken != nil {
		<-s.taken
	}
}
