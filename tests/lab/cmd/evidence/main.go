// Command evidence runs a plan that says what to measure and how to decide, and writes its report and verdicts.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/tests/lab/evidence"
	"github.com/triskele/triskele/tests/lab/measure"
)

type flags struct {
	Plan     []byte     `help:"YAML file that says what to measure and how to decide." type:"filecontent" required:"" placeholder:"FILE"`
	Data     string     `help:"Folder with a sub-folder per set, in the BEIR layout." required:"" type:"existingdir" placeholder:"DIR"`
	Postgres string     `help:"Connection URL of a server on which databases may be created." env:"TRISKELE_TEST_POSTGRES" placeholder:"URL"`
	Out      string     `help:"Folder for the run files; those of an interrupted run are used again." required:"" placeholder:"DIR"`
	Report   string     `help:"Folder for the report, its plots and its verdicts." default:"docs/evidence" placeholder:"DIR"`
	Revision string     `help:"Commit that the report names as the code's; the one this program was built from if not given." placeholder:"REV"`
	Limit    int        `help:"Queries per set; 0 means all." default:"0"`
	Embedder open.Flags `embed:""`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("evidence"), kong.Description("Measures configurations of recall and decides between them."))
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
	study, err := evidence.Run(ctx, evidence.Options{Plan: f.Plan, Revision: f.Revision, Eval: eval.Options{
		Data: f.Data, Postgres: f.Postgres, Out: f.Out, Limit: f.Limit, Progress: os.Stderr,
		Embedder: embedder, Fallback: fallback, Scorer: lexical.DefaultConfig().Scorer,
	}}, process, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	if err := study.Write(f.Report); err != nil {
		return err
	}
	for _, v := range study.Verdicts() {
		fmt.Println(v)
	}
	fmt.Println("wrote " + filepath.Join(f.Report, study.Plan.Name+".md"))
	return nil
}
