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
