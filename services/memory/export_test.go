package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// MaxExportsOf is how many exports of one tenant run at a time.
const MaxExportsOf = maxExportsOf

// Nearest is nearest.
var Nearest = nearest

// Limit sets how long the store may work on any call, and a receiver may take for a message.
func (s *Server) Limit(call, send time.Duration) *Server {
	s.limits = limits{call, call, call, send}
	return s
}

// LockTime sets how long a write waits for each lock.
func (s *Store) LockTime(d time.Duration) { s.lockTime = d }

// CountReads counts the reads of records from the database.
func (s *Server) CountReads(n *int) *Server {
	read := s.contents.read
	s.contents.read = func(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error) {
		*n++
		return read(ctx, namespace, ids)
	}
	return s
}
