package replace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/triskele/triskele/fuser/platform/replace"
)

// A file that cannot be written whole stays as it was, and nothing else is left in its folder.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	full := errors.New("the disk is full")
	for _, x := range []struct {
		text string
		err  error
		want string
	}{{"old", nil, "old"}, {"half of the new", full, "old"}, {"new", nil, "new"}} {
		err := replace.File(path, func(part *os.File) error {
			_, err := part.WriteString(x.text)
			return errors.Join(err, x.err)
		})
		got, readErr := os.ReadFile(path)
		if !errors.Is(err, x.err) || readErr != nil || string(got) != x.want {
			t.Errorf("after %q: got %q and %v, %v, want %q and %v", x.text, got, err, readErr, x.want, x.err)
		}
	}
	nowhere := filepath.Join(path, "nowhere")
	var failed *fs.PathError
	if err := replace.File(nowhere, nil); !errors.As(err, &failed) || failed.Path != nowhere {
		t.Errorf("got %v, want an error about %s", err, nowhere)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("got %v and %v, want one file", all, err)
	}
}
