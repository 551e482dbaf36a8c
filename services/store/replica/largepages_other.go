//go:build !linux

package replica

// Large makes a slice. Systems choose large pages by themselves here, or have none.
func Large[T any](length, capacity int) []T { return make([]T, length, capacity) }
