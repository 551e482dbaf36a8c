package dense

import (
	"context"
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
