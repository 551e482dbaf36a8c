// Package slice adds to the standard library's slices.
package slice

// Map returns what of makes of each value.
func Map[T, U any](values []T, of func(T) U) []U {
	out := make([]U, len(values))
	for i, v := range values {
		out[i] = of(v)
	}
	return out
}

// Set returns values as the keys of a map.
func Set[T comparable](values []T) map[T]bool {
	set := make(map[T]bool, len(values))
	for _, v := range values {
		set[v] = true
	}
	return set
}
