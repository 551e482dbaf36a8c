//go:build unix

package auth

import (
	"fmt"
	"io/fs"
	"syscall"
)

// keepOwner gives a file the owner and the group of another, by chown.
func keepOwner(from, to fs.FileInfo, chown func(uid, gid int) error) error {
	was, is := from.Sys().(*syscall.Stat_t), to.Sys().(*syscall.Stat_t)
	if was.Uid == is.Uid && was.Gid == is.Gid {
		return nil
	}
	if err := chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("%s belongs to user %d and group %d, which could not read a new file: run this as that user or as root: %w", from.Name(), was.Uid, was.Gid, err)
	}
	return nil
}
