// Package replace replaces files by whole ones.
package replace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Target returns the path that a path leads to by links, also if nothing is there yet.
func Target(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(target):
		return target
	}
	return filepath.Join(filepath.Dir(path), target)
}

// File puts what write writes in place of the file at path, or where none is, once it is complete and on the disk. Only the
// owner can read the file, unless write changes its mode.
func File(path string, write func(*os.File) error) error {
	part, err := os.CreateTemp(filepath.Dir(path), ".triskele-*")
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		failed.Path = path // callers know nothing of the temporary file
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // does nothing after the rename
	if err := errors.Join(write(part), part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return err
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil { // or a power failure may bring the former file back
		_ = folder.Sync() // Windows does without
		_ = folder.Close()
	}
	return nil
}
