package rerank

import "time"

// SetPace sets how long a token took lately.
func (b *Builtin) SetPace(d time.Duration) { b.pace.Store(int64(d)) }

// Pace returns how long a token took lately.
func (b *Builtin) Pace() time.Duration { return time.Duration(b.pace.Load()) }

// Learn is learn.
func (b *Builtin) Learn(spent time.Duration, tokens int, err error) { b.learn(spent, tokens, err) }

// Passage is passage.
var Passage = passage
