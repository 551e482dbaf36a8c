//go:build linux || darwin

package backend

import "golang.org/x/sys/unix"

// free returns the bytes that a folder's disk has left for its owner; -1 if unknown.
func free(folder string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(folder, &st) != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // the types are the system's
}
