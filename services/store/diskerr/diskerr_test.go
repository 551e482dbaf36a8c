package diskerr_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/services/store/diskerr"
)

// TestLast: a condition holds while writes fail now and then, and is logged once.
func TestLast(t *testing.T) { // not parallel: it reads the default log
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		full := fmt.Errorf("store: %w", fmt.Errorf("%w: the engine's words", diskerr.ErrFull))
		const concern = "the disk of the database is full: nothing can be stored"
		var last diskerr.Last
		for i, step := range []struct {
			after   time.Duration
			outcome error
			want    string
		}{
			{0, nil, ""},
			{0, errors.New("a conflict"), ""},
			{0, full, concern},
			{time.Second, nil, concern}, // which needed no room
			{40 * time.Second, full, concern},
			{40 * time.Second, nil, concern},
			{30 * time.Second, errors.New("a conflict"), concern},
			{0, nil, ""},
			{0, nil, ""},
		} {
			time.Sleep(step.after) // of the bubble's clock
			last.Note(t.Context(), step.outcome)
			if got := last.Concern(); got != step.want {
				t.Errorf("after step %d: got %q, want %q", i, got, step.want)
			}
		}
	})
	if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "the engine's words") || !strings.Contains(log.String(), "stored again") {
		t.Errorf("the log has %d lines, want 2:\n%s", lines, log.String())
	}
}
