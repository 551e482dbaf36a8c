package auth

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// complain is the time from one line of the log that says that tokens cannot be read to the next.
const complain = 10 * time.Minute

// watched are the tokens of a file, as of at most a moment ago. A file that can no longer be read or understood changes nothing:
// callers must not be locked out by a slip of an editor. But a token may be revoked in it, so the log, a metric and the health of
// the server say so until the file can be read.
type watched struct {
	path   string
	every  time.Duration
	log    *slog.Logger
	tokens atomic.Pointer[map[string]Token]
	mu     sync.Mutex // of what follows
	looked time.Time
	text   []byte    // that the tokens are from
	since  time.Time // of the first of the looks that failed; zero if the last one did not
	said   time.Time // that it failed
}

// watch reads the file for the first time.
func watch(path string, every time.Duration, log *slog.Logger) (*watched, error) {
	w := &watched{path: path, every: every, log: log, looked: time.Now()}
	return w, w.read()
}

// read reads all of the file: neither its time nor its size tells for sure whether it has changed, and it is small.
func (w *watched) read() error {
	text, err := os.ReadFile(w.path)
	if err != nil || w.text != nil && bytes.Equal(text, w.text) {
		return err
	}
	list, err := ParseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	byID := make(map[string]Token, len(list))
	for _, t := range list {
		byID[t.ID] = t
	}
	w.tokens.Store(&byID)
	w.text = text
	return nil
}

// now returns the tokens by id, after a look at the file if the last one is long ago. Others are not held up meanwhile.
func (w *watched) now() map[string]Token {
	if w.mu.TryLock() {
		w.look()
		w.mu.Unlock()
	}
	return *w.tokens.Load()
}

func (w *watched) look() {
	now := time.Now()
	if now.Sub(w.looked) < w.every {
		return
	}
	w.looked = now
	err := w.read()
	switch {
	case err == nil && !w.since.IsZero():
		w.log.Warn("tokens are read again", "unread_since", w.since)
		w.since, w.said = time.Time{}, time.Time{}
	case err != nil:
		if w.since.IsZero() {
			w.since = now
		}
		if now.Sub(w.said) >= complain {
			w.said = now
			w.log.Error("tokens cannot be read; those before hold, even if they were revoked meanwhile", "error", err.Error(), "since", w.since)
		}
	}
}

// unread is since when the file cannot be read, after a look if the last one is long ago; zero if it can.
func (w *watched) unread() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	return w.since
}

// stale is for how long the file could not be read.
func (w *watched) stale() time.Duration {
	since := w.unread()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// observe has a metric say for how long the file could not be read.
func (w *watched) observe(meter metric.Meter) error {
	_, err := meter.Float64ObservableGauge("triskele.tokens.stale", metric.WithUnit("s"),
		metric.WithDescription("How long the file of tokens could not be read; 0 if it can. Tokens revoked in that time are still good."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(w.stale().Seconds())
			return nil
		}))
	return err
}

// concern says what is wrong, if anything is.
func (w *watched) concern() string {
	since := w.unread()
	if since.IsZero() {
		return ""
	}
	return "tokens cannot be read since " + since.UTC().Format(time.RFC3339) + ", so that those revoked after it are still good; the log has the cause"
}
