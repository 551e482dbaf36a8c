package replica

import "time"

// RetryNow lets namespaces be loaded again at once that could not be loaded.
func (s *Set) RetryNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, img := range s.images.Values() {
		img.retry = time.Time{}
	}
}

// Len is the number of images.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images.Len()
}
