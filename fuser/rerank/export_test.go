package rerank

import "time"

// SetPace sets how long a token took lately.
func (b *Builtin) SetPace(d time.Duration) { b.pace.Store(int64(d)) }
