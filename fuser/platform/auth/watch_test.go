package auth

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const every = 10 * time.Second

// watching returns a watched file of one token, with what it logs.
func watching(t *testing.T) (w *watched, kept Token, log *bytes.Buffer) {
	t.Helper()
	_, kept, err := NewToken(Token{Namespaces: []string{"*"}, Scopes: Scopes}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens.json")
	if err := WriteTokens(path, []Token{kept}); err != nil {
		t.Fatal(err)
	}
	log = &bytes.Buffer{}
	if w, err = watch(path, every, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	return w, kept, log
}

// TestARevocationIsNotLost: a file that could not be read is read at the next look, even if nothing about it has changed: a mode does
// not change the time of a file.
func TestARevocationIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, kept, _ := watching(t)
		kept.Revoked = time.Now().Add(-time.Hour)
		if err := WriteTokens(w.path, []Token{kept}); err != nil {
			t.Fatal(err)
		}
		good, err := os.ReadFile(w.path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(w.path)
		if err != nil {
			t.Fatal(err)
		}
		put := func(text []byte) {
			t.Helper()
			if err := os.WriteFile(w.path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(w.path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}
		put(bytes.Replace(good, []byte("{"), []byte("["), 1))
		time.Sleep(every)
		if got := w.now()[kept.ID].State(time.Now()); got != "active" {
			t.Errorf("while the file cannot be read, the token is %s, want active", got)
		}
		put(good)
		time.Sleep(every)
		if got := w.now()[kept.ID].State(time.Now()); got != "revoked" {
			t.Errorf("after the file can be read, the token is %s, want revoked", got)
		}
	})
}

// TestStaleTokensAreTold: since when the file cannot be read, in a line now and then instead of one for each look.
func TestStaleTokensAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, log := watching(t)
		if age, concern := w.stale(), w.concern(); age != 0 || concern != "" {
			t.Fatalf("at first: stale for %v, %q", age, concern)
		}
		if err := os.Rename(w.path, w.path+".away"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(every)
		began := time.Now()
		for range 360 {
			w.now()
			time.Sleep(every)
		}
		if age := w.stale(); age != time.Since(began) {
			t.Errorf("stale for %v, want %v", age, time.Since(began))
		}
		if got, want := w.concern(), began.UTC().Format(time.RFC3339); !strings.Contains(got, want) || strings.Contains(got, w.path) {
			t.Errorf("concern %q, want one that says %s and no path", got, want)
		}
		if n := strings.Count(log.String(), "the token file cannot be read"); n < 6 || n > 7 {
			t.Errorf("%d lines in an hour, want 6 or 7:\n%s", n, log)
		}
		if err := os.Rename(w.path+".away", w.path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(every)
		if age, concern := w.stale(), w.concern(); age != 0 || concern != "" || !strings.Contains(log.String(), "the token file was reloaded") {
			t.Errorf("after it is back: stale for %v, %q, log\n%s", age, concern, log)
		}
	})
}
