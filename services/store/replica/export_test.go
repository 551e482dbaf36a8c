package replica

// Len is the number of images.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images.Len()
}
