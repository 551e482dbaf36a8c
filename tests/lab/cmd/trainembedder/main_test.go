package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Without a terminal, a stage of a thousand steps in a minute is three lines, not a thousand.
func TestLines(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Now()
	progress := lines(&log, func() time.Time { return now })
	for i := range 1000 {
		progress("train", i, 1000)
		now = now.Add(60 * time.Millisecond)
	}
	progress("done", 1, 1)
	if got := strings.Split(strings.TrimSpace(log.String()), "\n"); len(got) != 3 || got[0] != "train: 0 of 1000" || got[2] != "done: 1 of 1" {
		t.Errorf("the log is %q", got)
	}
}
