// Package replace replaces files by whole ones.
package replace

import (
	"errors"
	"os"
	"path/filepath"
)

// File puts what write writes in place of the file at path, or where none is, once it is complete and on the disk. Only the
// owner can read the file, unless write changes its mode.
func File(path string, write func(*os.File) error) error {
	part, err := os.CreateTemp(filepath.Dir(path), ".triskele-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // does nothing after the rename
	if err := errors.Join(write(part), part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}
