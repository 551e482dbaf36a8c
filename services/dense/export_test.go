package dense

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
