// Command importbench imports the same records into both stores with the real programs and prints, as Markdown, how long
// that takes, at what rate and with how much memory. One more import loses its client half way, and then the service
// under it; it is run again each time, and what is stored in the end is counted.
//
// The time is compared with that of writing the same texts into a bare table of the same engine, as many in a transaction.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/tests/lab/measure"
)

type settings struct {
	program string // triskele
	url     string // of a PostgreSQL server
	folder  string // for everything that is written
	counts  []int  // of records, the last of which is imported with interruptions, too
}

func main() {
	var s settings
	var counts string
	flag.StringVar(&s.program, "triskele", "bin/triskele", "`PATH` of the program")
	flag.StringVar(&s.url, "postgres", os.Getenv("TRISKELE_TEST_POSTGRES"), "PostgreSQL `URL`; databases are made on it and dropped")
	flag.StringVar(&counts, "records", "10000,100000", "how many records to import, in turn")
	flag.Parse()
	measure.Main(func(ctx context.Context) error { return run(ctx, s, counts) })
}

// progress says what is being done, and when it began.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, s settings, counts string) error {
	for text := range strings.SplitSeq(counts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			return fmt.Errorf("-records: %q is not a number of 1000 or more", text)
		}
		s.counts = append(s.counts, n)
	}
	var err error
	if s.folder, err = os.MkdirTemp("", "importbench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.folder) }()
	if err := describe(ctx, s); err != nil {
		return err
	}
	var measured []measurement
	var interrupted []interruption
	for i, n := range s.counts {
		file := filepath.Join(s.folder, fmt.Sprintf("%d.jsonl", n))
		if err := generate(file, n); err != nil {
			return err
		}
		for _, engine := range []string{"SQLite", "PostgreSQL"} {
			progress("%s: %d records", engine, n)
			m, err := s.measure(ctx, engine, file, n)
			if err != nil {
				return fmt.Errorf("%s, %d records: %w", engine, n, err)
			}
			progress("%s: %.0f records/s until searchable", engine, float64(n)/m.searchable.Seconds())
			measured = append(measured, m)
			if i < len(s.counts)-1 {
				continue
			}
			progress("%s: the same records, interrupted", engine)
			broken, err := s.interrupt(ctx, engine, file, n)
			if err != nil {
				return fmt.Errorf("%s, interrupted: %w", engine, err)
			}
			interrupted = append(interrupted, broken)
		}
	}
	report(measured, interrupted)
	return nil
}
