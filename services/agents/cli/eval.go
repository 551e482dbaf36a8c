package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/lexical"
)

type evalCmd struct {
	Data        string     `help:"Folder with a sub-folder per set, each with corpus.jsonl, queries.jsonl and qrels.tsv." required:"" placeholder:"DIR"`
	Sets        []string   `help:"Sets to measure; all if not given." placeholder:"SET"`
	Store       string     `help:"Kind of database: sqlite or postgres." enum:"sqlite,postgres" default:"sqlite"`
	Postgres    string     `help:"Connection URL of a server on which databases may be created." env:"TRISKELE_POSTGRES" placeholder:"URL"`
	Gateway     string     `help:"Measure this gateway instead of a temporary system. The imported memories are deleted afterwards." placeholder:"TARGET"`
	Out         string     `help:"Folder for report.md, report.json and the run files." required:"" placeholder:"DIR"`
	Configs     []string   `help:"Configurations to measure; all if not given: ${configs}." placeholder:"CONFIG"`
	Scorer      string     `help:"How the lexical leg ranks: ${scorers}." enum:"${scorers}" default:"bm25"`
	Embedder    open.Flags `embed:"" group:"Embedder:"`
	Limit       int        `help:"Queries per set; 0 means all." default:"0"`
	Concurrency int        `help:"Concurrent recalls; measure latencies with 1." default:"1"`
}

// Validate refuses contradictory flags.
func (c *evalCmd) Validate() error {
	if c.Store == "postgres" && c.Postgres == "" {
		return errors.New("--store postgres needs --postgres URL")
	}
	return nil
}

// command returns the command line for the report, with placeholders for paths and addresses of this machine.
func (c *evalCmd) command() string {
	parts := []string{"triskele eval", "--data", "DATA", "--store", c.Store, "--out", "OUT"}
	add := func(given bool, words ...string) {
		if given {
			parts = append(parts, words...)
		}
	}
	add(len(c.Sets) > 0, "--sets", strings.Join(c.Sets, ","))
	add(len(c.Configs) > 0, "--configs", strings.Join(c.Configs, ","))
	add(c.Scorer != "bm25", "--scorer", c.Scorer)
	add(c.Gateway != "", "--gateway", "GATEWAY")
	add(c.Embedder.Embedder != "builtin", "--embedder", strconv.Quote(c.Embedder.Embedder))
	add(c.Limit > 0, "--limit", strconv.Itoa(c.Limit))
	add(c.Concurrency > 1, "--concurrency", strconv.Itoa(c.Concurrency))
	return strings.Join(parts, " ")
}

// Run measures and prints the report.
func (c *evalCmd) Run(ctx context.Context, env *Env) error {
	embedder, fallback, err := c.Embedder.Open(env.Getenv)
	if err != nil {
		return err
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer flush(ctx, process)
	log := slog.New(slog.NewTextHandler(env.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := lexical.DefaultConfig()
	config.Scorer = c.Scorer
	report, err := eval.Run(ctx, eval.Options{
		Data: c.Data, Sets: c.Sets, Store: c.Store, Postgres: c.Postgres, Gateway: c.Gateway, Out: c.Out, Configs: c.Configs, Limit: c.Limit,
		Concurrency: c.Concurrency, Progress: env.Err, Command: c.command(),
		Embedder: embedder, Fallback: fallback, Lexical: config,
	}, process, log)
	if err != nil {
		return err
	}
	return env.print(string(report.Markdown()) + "\nwrote " + filepath.Join(c.Out, "report.md") + "\n")
}
