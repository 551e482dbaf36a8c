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

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// complain is the least time between two log lines about unreadable tokens, or about keys of an issuer.
const complain = 10 * time.Minute

// watched are the tokens of a file, at most every old. The last good ones hold while the file is unreadable or
// invalid, so that an editor's slip locks no caller out. The log, a metric and the server's health report it, since a
// revocation may be missed.
type watched struct {
	path   string
	every  time.Duration
	log    *slog.Logger
	tokens atomic.Pointer[map[string]Token]
	mu     sync.Mutex // of what follows
	looked time.Time
	text   []byte    // of the file
	since  time.Time // the first failed read; zero if the last one succeeded
	said   time.Time // last log line
}

func watch(path string, every time.Duration, log *slog.Logger) (*watched, error) {
	w := &watched{path: path, every: every, log: log, looked: time.Now()}
	return w, w.read()
}

// read compares the whole file: time and size may miss a change, and it is small.
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

// now returns the tokens by id. One caller reads the file again when that is due; others do not wait.
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
		w.log.Warn("the token file was reloaded", "unread_since", w.since)
		w.since, w.said = time.Time{}, time.Time{}
	case err != nil:
		if w.since.IsZero() {
			w.since = now
		}
		if now.Sub(w.said) >= complain {
			w.said = now
			w.log.Error("the token file cannot be read; the last tokens stay valid, even if they were revoked since", "error", err.Error(), "since", w.since)
		}
	}
}

// unread returns since when the file is unreadable, zero if it is not. It reads the file when due.
func (w *watched) unread() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	return w.since
}

// stale returns for how long the file was unreadable.
func (w *watched) stale() time.Duration {
	since := w.unread()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// observe registers a metric of stale.
func (w *watched) observe(meter metric.Meter) {
	telemetry.Must(meter.Float64ObservableGauge("triskele.tokens.stale", metric.WithUnit("s"),
		metric.WithDescription("Time since the token file could last be read; 0 if it can be read. Tokens revoked since then are still accepted."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(w.stale().Seconds())
			return nil
		})))
}

// concern is the problem, or "" for none.
func (w *watched) concern() string {
	since := w.unread()
	if since.IsZero() {
		return ""
	}
	return "the token file cannot be read since " + since.UTC().Format(time.RFC3339) + ": tokens revoked after that are still accepted; the log has the cause"
}
