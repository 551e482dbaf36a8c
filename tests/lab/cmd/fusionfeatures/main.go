// Command fusionfeatures records the features of candidates that the calibrated fusion is trained on.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/calibrate"
	"github.com/triskele/triskele/tests/lab/measure"
)

type flags struct {
	Data     string     `help:"Folder with eval, a folder per set, and train, the pairs." required:"" type:"existingdir" placeholder:"DIR"`
	Sets     []string   `help:"Sets of eval to record; judge-only ones too." default:"brainbench-world,factconsolidation-64k,friendsqa-turn,locomo-turn,musique-train100-openie,qmsum-turn,scifact-test"`
	Stores   string     `help:"Folder with everyday stores." default:"tests/lab/calibrate/stores" type:"existingdir"`
	Out      string     `help:"Folder for the features." default:"out/fusion/features"`
	Store    string     `help:"Store to search in: sqlite or postgres." default:"sqlite" enum:"sqlite,postgres"`
	Postgres string     `help:"Connection URL of a server on which databases may be created." env:"TRISKELE_TEST_POSTGRES" placeholder:"URL"`
	Seed     uint64     `help:"Seed of the tasks." default:"1"`
	Only     []string   `help:"Record only these of: tasks, everyday, and the sets."`
	Embedder open.Flags `embed:""`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("fusionfeatures"), kong.Description("Records the features of candidates that the calibrated fusion is trained on."))
	measure.Main(func(ctx context.Context) error { return run(ctx, f) })
}

func run(ctx context.Context, f flags) (err error) {
	embedder, fallback, err := f.Embedder.Open(os.Getenv)
	if err != nil {
		return err
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, process.Shutdown(flush))
	}()
	wanted := func(name string) bool { return len(f.Only) == 0 || slices.Contains(f.Only, name) }
	r := &calibrate.Recorder{
		Options: eval.Options{
			Data: f.Data, Store: f.Store, Postgres: f.Postgres, Sets: []string{"-"}, Out: f.Out, Embedder: embedder, Fallback: fallback,
		},
		Process: process, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Folder: f.Out, Progress: os.Stderr,
	}
	var sets []*eval.Set
	for _, name := range f.Sets {
		set, err := eval.Load(filepath.Join(f.Data, "eval", name), 0)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	for i, set := range sets {
		r.Foreign = sets[(i+1)%len(sets)].Queries
		if wanted(set.Name) {
			if err := r.Record(ctx, set, true); err != nil {
				return fmt.Errorf("%s: %w", set.Name, err)
			}
		}
	}
	if wanted("everyday") {
		set, err := calibrate.Everyday(f.Stores)
		if err != nil {
			return err
		}
		if err := r.Record(ctx, set, false); err != nil {
			return err
		}
	}
	if !wanted("tasks") {
		return nil
	}
	set, err := calibrate.Tasks(filepath.Join(f.Data, "train"), f.Seed)
	if err != nil {
		return err
	}
	return r.Record(ctx, set, false)
}
