package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// write writes what was measured so far.
func write(f flags, measured []measurement) error {
	var b strings.Builder
	for _, m := range measured {
		fmt.Fprintf(&b, "%d memories, loaded in %v\n", m.size, m.load.Round(time.Second))
		for _, s := range m.scorers {
			fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %.0f | %.3f | %d | %d |\n", m.size, s.name, ms(s.at(50)), ms(s.at(95)), ms(s.at(99)), s.rows, s.found, s.truncated, s.failed)
		}
		fmt.Fprintf(&b, "postings %.0f bytes %v write1 %v write100 %v\n", m.postings, m.bytes, m.write1, m.write100)
	}
	if err := os.MkdirAll(f.Out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.Out, "lexical.md"), []byte(b.String()), 0o644)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

var _ = math.Log
