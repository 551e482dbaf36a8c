// Command compareembedders measures embedders side by side, alone and fused with the lexical leg, and writes a report.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/tests/lab/compare"
	"github.com/triskele/triskele/tests/lab/train"
)

type flags struct {
	Data     string    `help:"Folder with a sub-folder per set, in the BEIR layout." required:"" type:"existingdir" placeholder:"DIR"`
	Sets     []string  `help:"Sets to measure." required:"" placeholder:"SET"`
	Lexical  string    `help:"Results of triskele eval --configs D-lexical on these sets." required:"" type:"existingdir" placeholder:"DIR"`
	Baseline string    `help:"Embedder to beat, as for triskele up --embedder, or static:FILE for a former built-in model." default:"hashed" placeholder:"KIND[:PLACE]"`
	Model    string    `help:"File of another static model to measure in place of the built-in one." type:"existingfile" placeholder:"FILE"`
	Alphas   []float64 `help:"Weights of the dense leg to choose from." default:"0.1,0.15,0.2,0.25,0.3,0.4,0.5"`
	Out      string    `help:"File to write the report to." required:"" type:"path" placeholder:"FILE"`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("compareembedders"), kong.Description("Compares embedders on retrieval collections."))
	if err := run(context.Background(), f); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) error {
	file := []byte(static.File())
	if f.Model != "" {
		var err error
		if file, err = os.ReadFile(f.Model); err != nil {
			return err
		}
	}
	model, err := static.Decode(string(file))
	if err != nil {
		return err
	}
	control, err := train.Random(file, 1)
	if err != nil {
		return err
	}
	random, err := static.Decode(string(control))
	if err != nil {
		return err
	}
	baseline, name, err := openBaseline(f.Baseline)
	if err != nil {
		return err
	}
	options := compare.Options{
		Data: f.Data, Sets: f.Sets, Lexical: f.Lexical, Alphas: f.Alphas, Progress: os.Stderr,
		Embedders: []compare.Named{
			{Name: "built-in", Embedder: model}, {Name: name, Embedder: baseline}, {Name: "hashed n-grams", Embedder: embed.NewHashed()},
			{Name: "built-in, random rows", Embedder: random}, {Name: "noise", Embedder: compare.Noise{}},
			{Name: "built-in, weighed", Embedder: model, Weighed: true}, {Name: name + ", weighed", Embedder: baseline, Weighed: true},
		},
	}
	results, err := compare.Run(ctx, options)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# Embedders compared\n\nWritten by `make eval-embedders` on %s. The lexical leg is SQLite's BM25. Intervals are 95 %% by a paired bootstrap over\n"+
		"queries; bold ones exclude 0. A query belongs to the tuning half or to the reporting half of its set by a hash of its id.\n\n",
		time.Now().UTC().Format(time.DateOnly))
	return os.WriteFile(f.Out, []byte(text+strings.TrimRight(compare.Markdown(results, options, "built-in", name), "\n")+"\n"), 0o644)
}

func openBaseline(value string) (embed.Embedder, string, error) {
	path, former := strings.CutPrefix(value, "static:")
	if !former {
		baseline, err := open.Open(value, func(string) string { return "" })
		if err != nil {
			return nil, "", err
		}
		return baseline, baseline.Model().Name, nil
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	model, err := static.Decode(string(file))
	return model, "former built-in", err
}
