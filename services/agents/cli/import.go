package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/transcript"
	"github.com/triskele/triskele/services/agents/watch"
)

type importCmd struct {
	File             string `arg:"" name:"source" optional:"" help:"What to import: a file, - for standard input, a folder, a zip archive, or a PostgreSQL URL. Agents have a folder that is taken if none is given."`
	From             string `help:"Kind of source: jsonl, a file with one memory in the API's JSON form on each line; markdown, a folder of notes; claude-code, codex and gemini, sessions of these agents; chatgpt and claude, exports of these, a zip archive or conversations.json; mem0, its JSON or history.db; basic-memory, its folder; claude-memory-mcp, its PostgreSQL URL or SQLite file." enum:"jsonl,markdown,claude-code,codex,gemini,chatgpt,claude,mem0,basic-memory,claude-memory-mcp" default:"jsonl"`
	Namespace        string `short:"n" help:"Put every memory into this namespace, whatever its line says."`
	DefaultNamespace string `help:"Namespace of memories whose line names none." default:"default" env:"TRISKELE_NAMESPACE"`
	Table            string `help:"Table to read from claude-memory-mcp's database." default:"memories"`
	User             string `help:"Import the memories of this user of claude-memory-mcp only."`
	DryRun           bool   `help:"Print what an import would do, and store nothing."`
	Strict           bool   `help:"Stop at the first memory that cannot be imported. Those before it are stored."`
	JSON             bool   `help:"Print a report as JSON instead of a summary, with everything that was skipped."`
	Wait             bool   `help:"Return only when all memories are indexed."`
	gatewayFlags
}

func (c *importCmd) Validate() error {
	switch {
	case c.File == "-" && c.From != "jsonl":
		return errors.New("standard input can only be jsonl")
	case c.File == "" && usualPlaces[c.From].folder == "":
		return errors.New("name what to import")
	}
	return nil
}

// usualPlaces are the folders of agents, with the variables that name others, and what they have their memories in.
var usualPlaces = map[string]struct{ variable, folder, below string }{
	"claude-code": {"CLAUDE_CONFIG_DIR", ".claude", "projects"}, "codex": {"CODEX_HOME", ".codex", "sessions"}, "gemini": {"", ".gemini", "tmp"},
	"basic-memory": {"", "basic-memory", ""},
}

func (c *importCmd) Run(ctx context.Context, env *Env) error {
	return c.run(ctx, env, func(report *importer.Report) error { return c.show(env, report) })
}

func (c *importCmd) run(ctx context.Context, env *Env, show func(*importer.Report) error) error {
	if c.File == "" {
		place := usualPlaces[c.From]
		folder, err := env.home().Under(place.variable, place.folder)
		if err != nil {
			return fmt.Errorf("%w: name what to import", err)
		}
		c.File = filepath.Join(folder, place.below)
	}
	source, err := c.source(ctx, env)
	if err != nil {
		return err
	}
	if open, ok := source.(io.Closer); ok {
		defer func() { _ = open.Close() }()
	}
	options := importer.Options{DryRun: c.DryRun, Strict: c.Strict, Timeout: c.Timeout}
	return c.with(ctx, func(s *session) error {
		bar := newProgress(env, source.Total(), c.From == "jsonl" || usualPlaces[c.From].folder != "" && c.From != "basic-memory", "import")
		options.Progress = func(done int64, report *importer.Report) { bar.reached(done, report.Done()) }
		report, err := importer.Run(ctx, s.Memories, source, options)
		bar.done()
		err = errors.Join(err, show(report))
		if err == nil && c.Wait && !c.DryRun {
			for _, namespace := range slices.Sorted(maps.Keys(report.Namespaces)) {
				if err := s.WaitIndexed(ctx, namespace, func(pending int64) { bar.tell(fmt.Sprintf("%d memories to be indexed", pending)) }); err != nil {
					return err
				}
			}
			if !c.JSON {
				err = env.print("indexed\n")
			}
		}
		if err == nil && report.Skipped > 0 {
			return partlyError{fmt.Errorf("%d could not be imported", report.Skipped)}
		}
		return err
	})
}

// source opens the import's source. Some are to be closed.
func (c *importCmd) source(ctx context.Context, env *Env) (importer.Source, error) {
	namespace := cmp.Or(c.Namespace, c.DefaultNamespace)
	switch c.From {
	case "claude-code", "codex", "gemini", "chatgpt", "claude":
		return importer.OpenConversations(transcript.Format(c.From), c.File, namespace, env.private)
	case "mem0":
		return importer.OpenMem0(ctx, c.File, namespace)
	case "markdown", "basic-memory":
		return importer.OpenFolder(c.File, namespace)
	case "claude-memory-mcp":
		source, err := importer.OpenClaudeMemory(ctx, c.File, c.Table, c.User, namespace)
		if err != nil {
			return nil, err
		}
		for _, finding := range source.Findings() {
			_, _ = fmt.Fprintln(env.Err, render.Plain(finding))
		}
		return source, nil
	}
	source := &importer.JSONL{Name: c.File, Size: -1, Namespace: c.Namespace, DefaultNamespace: c.DefaultNamespace, Open: func() (io.ReadCloser, error) {
		return env.open(ctx, c.File)
	}}
	if c.File == "-" {
		source.Name = "standard input"
		return source, nil
	}
	info, err := os.Stat(c.File)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder; --from markdown imports the notes in it", c.File)
	case info.Mode().IsRegular():
		source.Size = info.Size()
	}
	return source, nil
}

func (c *importCmd) show(env *Env, report *importer.Report) error {
	return env.show(c.JSON, report, render.Lines(report.String())) // the report has untrusted names
}

type syncCmd struct {
	Folder    string `arg:"" help:"Folder of notes in Markdown."`
	Watch     bool   `help:"Go on, and import again whenever notes change, until interrupted."`
	Namespace string `short:"n" help:"Namespace of the notes." default:"default" env:"TRISKELE_NAMESPACE"`
	JSON      bool   `help:"Print reports as JSON."`
	gatewayFlags
}

// Validate implements kong's interface. A variable of the shell that is empty would name the working directory.
func (c *syncCmd) Validate() error {
	if c.Folder == "" {
		return errors.New("name the folder of notes")
	}
	return nil
}

func (c *syncCmd) Run(ctx context.Context, env *Env) error {
	root, err := filepath.Abs(c.Folder)
	if err != nil {
		return err
	}
	source := &importCmd{File: root, From: "markdown", Namespace: c.Namespace, JSON: c.JSON, gatewayFlags: c.gatewayFlags}
	if !c.Watch {
		return source.Run(ctx, env)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	first := true
	var known []importer.Problem // what the last report skipped
	folder := watch.Folder{Root: root, IsNote: importer.IsNote, Changed: func() error {
		err := source.run(ctx, env, func(report *importer.Report) error {
			skipped := slices.DeleteFunc(slices.Clone(report.Problems), func(p importer.Problem) bool { return !p.Skipped })
			if changed := report.Stored + report.Updated + report.Forgotten; changed == 0 && !first && slices.Equal(skipped, known) {
				return nil
			}
			first, known = false, skipped
			return source.show(env, report)
		})
		if _, skipped := errors.AsType[partlyError](err); skipped || err == nil || ctx.Err() != nil {
			return nil
		}
		_, _ = fmt.Fprintln(env.Err, env.styleOf(env.Err).Bad("error:"), render.Plain(message(ctx, err)))
		return err
	}}
	return folder.Run(ctx)
}
