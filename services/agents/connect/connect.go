// Package connect writes Triskele into the configuration files of agents, and removes it again. It imports no service. The process
// for one client is:
//
//  1. A client names its files on this platform, with the edits to each: an MCP server, and hooks where the client has them.
//  2. Plan reads the files and computes their new texts. Comments, order and everything that is not Triskele's stay as they are.
//  3. The caller shows the diff of each change.
//  4. Apply keeps a copy of a file that existed, records what it writes, and replaces the file in one step.
//
// Planning again gives no change. Undo gives a file back as it was if nobody has changed it since. It removes Triskele from a file that
// somebody has changed.
package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/gofrs/flock"

	"github.com/triskele/triskele/fuser/platform/replace"
	"github.com/triskele/triskele/services/agents/internal/home"
)

// backup is the suffix of the copy of a file from before the first change.
const backup = ".before-triskele"

const lockPause = 50 * time.Millisecond

// Program says how a client starts Triskele.
type Program struct {
	Path string   // absolute path of the executable
	MCP  []string // arguments that start the MCP server
	Hook []string // arguments that run the hook
}

// Home says where files are.
type Home = home.Home

// Client is an agent that can be connected.
type Client struct {
	Name  string // as users type it
	Title string
	Hooks bool // the client runs hooks
	// files returns the client's files, the one with the server first. It fails if the home folder is unknown.
	files func(Home) ([]file, error)
}

// Find returns the client of a name.
func Find(name string) (Client, bool) {
	at := slices.IndexFunc(Clients, func(c Client) bool { return c.Name == name })
	if at < 0 {
		return Client{}, false
	}
	return Clients[at], true
}

// Change is what happens to one file.
type Change struct {
	Path          string
	Before, After []byte // Before is nil if there is no file; After is nil if it is removed

	record string // path of what connect has written
	undo   bool
	first  bool // Before has nothing of Triskele's
}

// Plan returns the changes that connect the client. It returns none if it is connected in the same way already.
func (c Client) Plan(home Home, p Program) ([]Change, error) {
	return c.plan(home, false, func(f file, text []byte, started string, _ written) ([]byte, error) { return f.add(text, p, started) })
}

// PlanUndo returns the changes that give the client's files back.
func (c Client) PlanUndo(home Home) ([]Change, error) {
	return c.plan(home, true, func(f file, text []byte, started string, w written) ([]byte, error) {
		if text == nil {
			return nil, nil
		}
		kept, err := read(f.path + backup)
		if err != nil {
			return nil, err
		}
		if w.Sum != "" && !w.Existed {
			kept = nil // the copy is older
		}
		if w.Sum == sum(text) && w.Existed == (kept != nil) {
			return kept, nil
		}
		if line, _ := f.server(text); line != nil && w.Sum == "" && (len(line) < 2 || line[1] != "mcp") {
			kept = text // connect has written nothing, and this server is none of Triskele's
		}
		after, err := f.remove(text, kept, started)
		if err == nil && !bytes.Equal(after, text) && nothing(after) && kept == nil {
			return nil, nil // the file was Triskele's alone
		}
		return after, err
	})
}

func (c Client) plan(home Home, undo bool, edit func(f file, text []byte, started string, w written) ([]byte, error)) (changes []Change, err error) {
	files, err := c.files(home)
	if err != nil {
		return nil, err
	}
	folder, err := home.State("triskele")
	if err != nil {
		return nil, err
	}
	record := filepath.Join(folder, "connect.json")
	all, err := readRecord(record)
	if err != nil {
		return nil, err
	}
	started := ""
	for _, f := range files {
		text, err := read(f.path)
		if err != nil {
			return nil, err
		}
		if line, err := f.server(text); err == nil && line != nil {
			started = line[0]
		}
		after, err := edit(f, text, started, all[f.path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w; it was left as it is", f.path, err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > 0 && lines == bytes.Count(text, []byte("\r\n")) && len(after) > 0 {
			after = bytes.ReplaceAll(bytes.ReplaceAll(after, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		}
		if !bytes.Equal(text, after) || (text == nil) != (after == nil) {
			without, err := f.remove(text, nil, started)
			changes = append(changes, Change{f.path, text, after, record, undo, err == nil && bytes.Equal(without, text)})
		}
	}
	if undo {
		slices.Reverse(changes) // the first one made the folder of the others
	}
	return changes, nil
}

// Lock waits until no other run plans or makes changes, or until ctx ends.
func Lock(ctx context.Context, home Home) (unlock func(), err error) {
	folder, err := home.State("triskele")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(folder, "connect.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// State is what a client's files say.
type State struct {
	Found  bool     // the client's folder or a file of its is there
	Server []string // command line of the MCP server, nil if there is none
	Hooked bool
}

// Look reads the client's files.
func (c Client) Look(home Home) (s State, err error) {
	files, err := c.files(home)
	if err != nil {
		return s, err
	}
	started := ""
	for _, f := range files {
		s.Found = s.Found || exists(f.path) || (exists(filepath.Dir(f.path)) && filepath.Dir(f.path) != home.Getenv("HOME"))
		text, err := read(f.path)
		if err != nil {
			return s, err
		}
		if text == nil {
			continue
		}
		if line, err := f.server(text); err != nil {
			return s, fmt.Errorf("%s: %w", f.path, err)
		} else if line != nil {
			s.Server, started = line, line[0]
		}
		s.Hooked = s.Hooked || f.hooked(text, started)
	}
	return s, nil
}

// Diff returns the change as a unified diff.
func (c Change) Diff() string {
	from, to := c.Path, c.Path
	if c.Before == nil {
		from = os.DevNull
	}
	if c.After == nil {
		to = os.DevNull
	}
	return udiff.Unified(from, to, string(c.Before), string(c.After))
}

// Apply writes the change. It keeps a copy of a file from before the first change until that is undone. A later undo would take a server
// from it that the user has changed since.
func (c Change) Apply() error {
	path := replace.Target(c.Path) // a link into a folder of settings stays a link
	if now, err := read(path); err != nil || !bytes.Equal(now, c.Before) {
		return cmp.Or(err, fmt.Errorf("%s has changed meanwhile: run the command again", c.Path))
	}
	w, err := c.note(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := c.write(path); err != nil || !c.undo {
		return err
	}
	if kept, err := read(c.Path + backup); err == nil && (w.Existed || bytes.Equal(kept, c.After)) {
		_ = os.Remove(c.Path + backup)
	}
	for _, folder := range w.Made {
		_ = os.Remove(folder) // fails if there is something else in it
	}
	return nil
}

func (c Change) write(path string) error {
	if c.After == nil {
		return os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return write(path, c.After, mode)
}

// Kept returns the path of the copy from before the first change, or "".
func (c Change) Kept() string {
	if !exists(c.Path + backup) {
		return ""
	}
	return c.Path + backup
}

func write(path string, text []byte, mode fs.FileMode) error {
	return replace.File(path, func(part *os.File) error {
		_, err := part.Write(text)
		return errors.Join(err, part.Chmod(mode))
	})
}

// read returns a file's text, or nil if there is no file.
func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if text == nil && err == nil {
		text = []byte{}
	}
	return text, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
