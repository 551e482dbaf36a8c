package dense

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/services/leg"
)

// CachedVectors returns how many vectors are kept in memory for each namespace.
func (s *SQLite) CachedVectors() map[string]int {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	vectors := map[string]int{}
	for namespace, e := range s.cache.entries {
		vectors[namespace] = len(e.matrix.ids)
	}
	return vectors
}

// Keep reads a namespace into memory.
func (p *Postgres) Keep(namespace string) error {
	e, _ := p.cache.use(namespace)
	return p.keep(e)
}

// SearchInMemory is Search among the vectors in memory; false if it has to do without them.
func (p *Postgres) SearchInMemory(ctx context.Context, q leg.Query) ([]leg.Hit, bool, error) {
	vector, _, err := queryVector(ctx, p.embedder, q)
	if err != nil {
		return nil, false, err
	}
	s := search{Postgres: p, q: q, vector: vector}
	hits, _, could, err := s.inMemory(ctx)
	return hits, could, err
}

// SeenByStandby makes the snapshot of a namespace's vectors one that a standby would give.
func (p *Postgres) SeenByStandby(namespace string) {
	e, m := p.cache.find(namespace)
	oldest, _, _ := strings.Cut(m.snapshot, ":")
	p.cache.saw(e, m.snapshot, oldest+":"+oldest+":")
}

// Age makes the vectors that are in memory for a namespace older.
func (p *Postgres) Age(namespace string, by time.Duration) {
	e, _ := p.cache.find(namespace)
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	e.matrix.readAt = e.matrix.readAt.Add(-by)
}

// LoseWrites makes the vectors that are in memory for a namespace those of a server that went on for some transactions, and whose
// end another server did not see that has taken over.
func (p *Postgres) LoseWrites(namespace string, transactions int64) {
	e, _ := p.cache.find(namespace)
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	oldest, _, _ := strings.Cut(e.matrix.snapshot, ":")
	number, _ := strconv.ParseInt(oldest, 10, 64)
	e.matrix.timeline--
	e.matrix.snapshot = fmt.Sprintf("%[1]d:%[1]d:", number+transactions)
}

// Cached returns how many namespaces there is something in memory for.
func (p *Postgres) Cached() int {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	return len(p.cache.entries)
}
