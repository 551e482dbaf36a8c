package watch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/watch"
)

func TestMain(m *testing.M) {
	watch.Hasten()
	os.Exit(m.Run())
}

// watched is a folder with what is called back.
type watched struct {
	t     *testing.T
	root  string
	calls chan struct{}
	ended chan error
}

func start(t *testing.T, changed func(root string) error) *watched {
	t.Helper()
	// A hidden folder that is named is watched.
	w := &watched{t, filepath.Join(t.TempDir(), ".notes"), make(chan struct{}, 100), make(chan error, 1)}
	for name, mode := range map[string]os.FileMode{"deep": 0o700, "closed": 0} { // root may open the second one
		w.do(os.MkdirAll(w.root, 0o700))
		if err := os.Mkdir(filepath.Join(w.root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	folder := watch.Folder{Root: w.root, IsNote: func(path string) bool { return strings.HasSuffix(path, ".md") }, Changed: func() error {
		err := changed(w.root)
		w.calls <- struct{}{}
		return err
	}}
	go func() { w.ended <- folder.Run(ctx) }()
	t.Cleanup(cancel)
	w.called("at the start")
	return w
}

func (w *watched) called(when string) {
	w.t.Helper()
	select {
	case <-w.calls:
	case err := <-w.ended:
		w.t.Fatalf("%s: ended with %v", when, err)
	case <-time.After(time.Minute):
		w.t.Fatalf("%s: no call", when)
	}
}

func (w *watched) write(path string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.root, path), []byte("Tea at four."), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Every way in which a note may change calls back once, and what is no note does not.
func TestChanges(t *testing.T) {
	t.Parallel()
	var notes string // at the last call, which comes before its signal
	w := start(t, func(root string) error {
		names, err := filepath.Glob(filepath.Join(root, "*.md"))
		notes = strings.Join(names, " ")
		return err
	})
	at := func(path string) string { return filepath.Join(w.root, path) }
	w.write("a.md")
	w.called("a new note")
	w.write("a.md")
	w.called("a changed note")
	w.write("deep/b.md")
	w.called("a note below")
	w.do(os.MkdirAll(at("v1.2/inner"), 0o700))
	w.called("a new folder")
	w.write("v1.2/inner/c.md")
	w.called("a note in a new folder")
	w.do(os.Rename(at("v1.2"), at("v1.3")))
	w.called("a folder with another name")
	w.write("v1.3/inner/c.md")
	w.called("a note in a folder with another name")
	w.do(os.RemoveAll(at("v1.3")))
	w.called("a folder that is removed")
	w.do(os.Remove(at("a.md")))
	w.called("a note that is removed")

	w.do(os.Mkdir(at(".trash"), 0o700))
	w.write(".trash/d.md")
	w.write(".a.md.swp")
	w.write("picture.png")
	w.do(os.Chmod(at("deep/b.md"), 0o400))
	w.write("e.md")
	w.write("f.md")
	w.called("two notes at a time, after much that is none")
	if e, f := strings.Count(notes, "e.md"), strings.Count(notes, "f.md"); e != 1 || f != 1 {
		t.Errorf("the call saw %s, want both notes", notes)
	}
}

func TestFailureIsRepeated(t *testing.T) {
	t.Parallel()
	failed := false
	w := start(t, func(string) error {
		if !failed {
			failed = true
			return errors.New("no gateway")
		}
		return nil
	})
	w.called("after a failure")
}

// A file can be watched, but is no folder of notes.
func TestFileIsNoFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.md")
	if err := os.WriteFile(path, []byte("Tea at four."), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := watch.Folder{Root: path, IsNote: func(string) bool { return true }, Changed: func() error { return errors.New("not a directory") }}
	if err := folder.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a.md is no folder") {
		t.Errorf("got %v, want that it is no folder", err)
	}
}

func TestFolderIsGone(t *testing.T) {
	t.Parallel()
	w := start(t, func(string) error { return nil })
	w.do(os.RemoveAll(w.root))
	for {
		select {
		case <-w.calls: // for deep
		case err := <-w.ended:
			if err == nil || !strings.Contains(err.Error(), "is gone") {
				t.Errorf("got %v, want an error that says so", err)
			}
			return
		case <-time.After(time.Minute):
			t.Fatal("it still watches")
		}
	}
}
