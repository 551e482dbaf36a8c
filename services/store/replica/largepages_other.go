//go:build !linux

package replica

// LargePages does nothing where systems choose large pages by themselves, or have none.
func LargePages[T any]([]T) {}
