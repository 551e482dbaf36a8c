package memory

import "time"

// MaxExportsOf is how many exports of one tenant run at a time.
const MaxExportsOf = maxExportsOf

// Limit sets how long the store may work on any call, and a receiver may take for a message.
func (s *Server) Limit(call, send time.Duration) *Server {
	s.limits = limits{call, call, call, send}
	return s
}

// LockTime sets how long a write waits for each lock.
func (s *Database) LockTime(d time.Duration) { s.lockTime = d }
