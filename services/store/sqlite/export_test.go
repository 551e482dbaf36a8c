package sqlite

// MaxStatements is how many statements a Reader keeps.
const MaxStatements = maxStatements

// Kept returns how many statements are kept.
func (r *Reader) Kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}
