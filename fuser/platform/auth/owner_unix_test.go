//go:build unix

package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// someone is a file as os.Stat has it, of another user and group.
type someone struct{ fs.FileInfo }

// Sys implements fs.FileInfo.
func (s someone) Sys() any {
	stat := *s.FileInfo.Sys().(*syscall.Stat_t)
	stat.Uid, stat.Gid = 4242, 4343
	return &stat
}

// TestOwnerIsKept: a file that is replaced stays its owner's, or is not replaced, because a gateway could not read it any more.
func TestOwnerIsKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o640); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	asked := [][2]int{}
	chown := func(err error) func(int, int) error {
		return func(uid, gid int) error {
			asked = append(asked, [2]int{uid, gid})
			return err
		}
	}
	if err := keepOwner(info, info, chown(nil)); err != nil || len(asked) != 0 {
		t.Errorf("of one's own: got %v, asked %v, want nothing", err, asked)
	}
	if err := keepOwner(someone{info}, info, chown(nil)); err != nil || !slices.Equal(asked, [][2]int{{4242, 4343}}) {
		t.Errorf("of another, as root: got %v, asked %v, want 4242 and 4343", err, asked)
	}
	if err := keepOwner(someone{info}, info, chown(syscall.EPERM)); !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "4242") {
		t.Errorf("of another, as nobody in particular: got %v, want one that names the user 4242", err)
	}
}

// TestWritingKeepsOwnerAndMode needs root to see the first of them.
func TestWritingKeepsOwnerAndMode(t *testing.T) {
	t.Parallel()
	_, kept, err := NewToken(Token{Namespaces: []string{"*"}, Scopes: Scopes}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := WriteTokens(file, nil); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 4242, 4343
	}
	if err := errors.Join(os.Chmod(file, 0o640), os.Chown(file, uid, gid)); err != nil {
		t.Fatal(err)
	}
	if err := ChangeTokens(file, func([]Token) ([]Token, error) { return []Token{kept}, nil }); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{file: 0o640, file + ".lock": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != uid || int(stat.Gid) != gid || info.Mode() != mode {
			t.Errorf("%s: got owner %d, group %d, mode %v, want %d, %d, %v", path, stat.Uid, stat.Gid, info.Mode(), uid, gid, mode)
		}
	}
}
