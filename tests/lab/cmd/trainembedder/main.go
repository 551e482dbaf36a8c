// Command trainembedder makes the model of the built-in embedder from a folder of text and pairs: text-*.jsonl.zst with
// lines {"t": text, "s": source} and pairs-*.jsonl.gz with lines {"a": text, "b": text, "k": kind, "s": source}.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/tests/lab/train"
)

type flags struct {
	Data string `help:"Folder with the text and the pairs." required:"" type:"existingdir" placeholder:"DIR"`
	Out  string `help:"File to write the model to." required:"" type:"path" placeholder:"FILE"`
	Seed uint64 `help:"Of all random choices; the same seed and data give the same model." default:"1"`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("trainembedder"), kong.Description("Trains the model of the built-in embedder."))
	progress := lines(os.Stderr, time.Now)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		progress = bars(os.Stderr)
	}
	if err := run(f, os.Stdout, progress); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(f flags, out io.Writer, progress train.Progress) error {
	start := time.Now()
	options := train.DefaultOptions()
	options.Seed = f.Seed
	file, err := train.Run(f.Data, options, progress)
	if err != nil {
		return err
	}
	model, err := static.Decode(string(file))
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.Out, file, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d words, %d dimensions, %d bytes, sha256 %x, %s\n",
		f.Out, model.Words(), model.Model().Dimensions, len(file), sha256.Sum256(file), time.Since(start).Round(time.Second))
	return err
}

// bars draws a bar for each stage.
func bars(terminal io.Writer) train.Progress {
	var current string
	var bar *progressbar.ProgressBar
	return func(stage string, done, total int) {
		if stage != current {
			current = stage
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(terminal), progressbar.OptionSetDescription(stage),
				progressbar.OptionSetWidth(24), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionOnCompletion(func() { _, _ = io.WriteString(terminal, "\n") }))
		}
		_ = bar.Set(done)
	}
}

// betweenLines is how long a stage says nothing where there is no terminal.
const betweenLines = 30 * time.Second

// lines writes a line when a stage begins, and then one now and then.
func lines(log io.Writer, now func() time.Time) train.Progress {
	var current string
	var last time.Time
	return func(stage string, done, total int) {
		if stage == current && now().Sub(last) < betweenLines {
			return
		}
		current, last = stage, now()
		_, _ = fmt.Fprintf(log, "%s: %d of %d\n", stage, done, total)
	}
}
