// Command benchdense measures the dense leg on both stores as the number of memories in one namespace grows: the time to
// embed a query, to search, and of the whole leg over its socket; the processor time; what the indexes find of what an exact
// search finds; from where on the index of PostgreSQL pays; what its bare statement costs, which is the floor; and what
// quantised vectors would change. It writes a report and a plot.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/tests/lab/measure"
)

type flags struct {
	Postgres   string `help:"Connection URL of a server on which databases may be created." required:"" env:"TRISKELE_TEST_POSTGRES" placeholder:"URL"`
	Sizes      []int  `help:"Numbers of memories." default:"20000,200000"`
	UpTo       int    `name:"postgres-up-to" help:"The largest size to fill PostgreSQL with, too, whose index takes long to build." default:"200000"`
	Thresholds []int  `help:"Sizes of namespaces to search exactly and through the index on PostgreSQL; 0 for none." default:"4000,8000,16000"`
	Queries    int    `help:"Queries per size." default:"200"`
	Depth      int    `help:"Hits asked for." default:"50"`
	Seed       uint64 `help:"Of the corpus." default:"1"`
	Out        string `help:"Folder for dense.md and dense.svg." required:"" placeholder:"DIR"`
	Profile    string `help:"File for a CPU profile of the searches." placeholder:"FILE"`
}

// deadline is each search's.
const deadline = 5 * time.Second

func main() {
	var f flags
	kong.Parse(&f, kong.Name("benchdense"))
	measure.Main(func(ctx context.Context) error { return run(ctx, f) })
}

func run(ctx context.Context, f flags) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	tel := process.Service("dense")
	var r results
	if f.Thresholds[0] > 0 {
		if r.crossing, err = measureCrossing(ctx, f, tel); err != nil {
			return fmt.Errorf("thresholds: %w", err)
		}
	}
	for i, size := range f.Sizes {
		m, err := measureSize(ctx, f, size, i == 0, tel)
		if err != nil {
			return fmt.Errorf("%d memories: %w", size, err)
		}
		r.sizes = append(r.sizes, m)
		if err := write(f, r); err != nil { // what has been measured stays, whatever becomes of the next size
			return err
		}
	}
	return nil
}

// say tells who waits what is being done.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// profiled runs fn, with the CPU profile if one is asked for.
func profiled(path string, size int, fn func() error) error {
	if path == "" {
		return fn()
	}
	file, err := os.Create(fmt.Sprintf("%s.%d", filepath.Clean(path), size))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return fn()
}
