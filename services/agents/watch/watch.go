// Package watch tells when the notes in a folder have changed. It imports nothing of this project. The process is:
//
//  1. Watch every folder below the root, without hidden ones: those belong to editors and tools.
//  2. A change to a note or a folder starts a timer, and each further change starts it anew. Editors save in several steps.
//  3. When the timer ends, call back. Changes during the call wait for the next one.
//  4. If the call fails, call again later, also without a change.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long nothing may change before the callback. latest bounds the wait while changes go on.
	settle = 500 * time.Millisecond
	latest = 10 * time.Second
)

// again is the time until a call that has failed is repeated.
var again = 10 * time.Second

// Folder is a folder of notes.
type Folder struct {
	Root   string
	IsNote func(path string) bool
	// Changed is called once at the start, and after changes. An error repeats the call later.
	Changed func() error

	watcher *fsnotify.Watcher
	folders map[string]bool
}

// Run watches until ctx ends, and returns nil then. It fails if the folder can no longer be watched.
func (f *Folder) Run(ctx context.Context) (err error) {
	if f.watcher, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	defer func() { _ = f.watcher.Close() }()
	f.folders = map[string]bool{}
	if err := f.add(f.Root); err != nil { // before the first call: no change is missed
		return err
	}
	var first time.Time // of the changes since the last call
	timer := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			first = time.Time{}
			if f.Changed() != nil {
				timer.Reset(again)
			}
		case event := <-f.watcher.Events:
			matters, err := f.matters(event)
			if err != nil {
				return err
			}
			if !matters {
				continue
			}
			if first.IsZero() {
				first = time.Now()
			}
			timer.Reset(max(0, min(settle, latest-time.Since(first))))
		case err := <-f.watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch %s: %w", f.Root, err)
			}
			if err := f.add(f.Root); err != nil { // a new folder may be among what was lost
				return err
			}
			timer.Reset(settle)
		}
	}
}

// matters reports whether a change may change what is imported. It follows new folders.
func (f *Folder) matters(event fsnotify.Event) (bool, error) {
	if event.Op == fsnotify.Chmod || event.Name != f.Root && hidden(event.Name) {
		return false, nil
	}
	if f.folders[event.Name] && event.Op.Has(fsnotify.Remove|fsnotify.Rename) {
		if event.Name == f.Root {
			return false, fmt.Errorf("%s is gone", f.Root)
		}
		_ = f.watcher.Remove(event.Name) // one that was moved is still watched by its former name
		delete(f.folders, event.Name)
		return true, nil
	}
	if event.Op.Has(fsnotify.Create) {
		if err := f.add(event.Name); err != nil {
			return false, err
		}
	}
	return f.folders[event.Name] || f.IsNote(event.Name), nil
}

// add watches a folder and those below it. A path that is gone, or a file, is none.
func (f *Folder) add(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == f.Root:
			return err
		case path == f.Root && !entry.IsDir():
			return fmt.Errorf("%s is no folder", path)
		case err != nil, !entry.IsDir(): // moved away meanwhile, or not for this user: the import says so
			return nil
		case path != f.Root && hidden(path):
			return fs.SkipDir
		}
		if err := f.watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		f.folders[path] = true
		return nil
	})
}

func hidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }
