package auth

import (
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// watched are the tokens of a file, as of at most a moment ago. A file that can no longer be read or understood changes
// nothing but the log: callers must not be locked out by a slip of an editor.
type watched struct {
	path    string
	every   time.Duration
	log     *slog.Logger
	tokens  atomic.Pointer[map[string]Token]
	mu      sync.Mutex // of what follows
	looked  time.Time
	changed fs.FileInfo
}

// watch reads the file for the first time.
func watch(path string, every time.Duration, log *slog.Logger) (*watched, error) {
	w := &watched{path: path, every: every, log: log}
	return w, w.read()
}

func (w *watched) read() error {
	info, err := os.Stat(w.path)
	if err != nil {
		return err
	}
	w.changed = info
	list, err := ReadTokens(w.path)
	if err != nil {
		return err
	}
	byID := make(map[string]Token, len(list))
	for _, t := range list {
		byID[t.ID] = t
	}
	w.tokens.Store(&byID)
	w.looked = time.Now()
	return nil
}

// now returns the tokens by id, after a look at the file if the last one is long ago. Others are not held up meanwhile.
func (w *watched) now() map[string]Token {
	if w.mu.TryLock() {
		defer w.mu.Unlock()
		if time.Since(w.looked) >= w.every {
			w.looked = time.Now()
			info, err := os.Stat(w.path)
			if err == nil && !(info.ModTime().Equal(w.changed.ModTime()) && info.Size() == w.changed.Size() && os.SameFile(info, w.changed)) {
				err = w.read()
			}
			if err != nil {
				w.log.Error("tokens were not read again; the ones before hold", "error", err.Error())
			}
		}
	}
	return *w.tokens.Load()
}
