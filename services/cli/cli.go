// Package cli is the command-line program triskele: one small struct per command. Commands talk to a gateway over gRPC,
// except those that run one (up, demo, eval) or care for a database (migrate, doctor).
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/admin"
	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/cli/render"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/lexical"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitPartly  = 3 // there is more to do: migrations to apply, records that an import skipped
)

const description = `A recall service for agents: remembers short texts and finds the ones that matter.

Start it with "triskele up". Exit codes: 0 success, 1 failure, 2 wrong usage, 3 an import that had to leave something out.`

// Env is what the program has of its surroundings.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	Started  time.Time // when the process was
}

// style suits standard output.
func (e *Env) style() render.Style { return render.StyleOf(e.Out, e.plain()) }

func (e *Env) plain() bool { return e.Getenv("NO_COLOR") != "" || e.Getenv("TERM") == "dumb" }

// print writes text that has been drawn to standard output.
func (e *Env) print(text string) error {
	_, err := io.WriteString(e.Out, text)
	return err
}

type commands struct {
	Up        upCmd        `cmd:"" help:"Run all services in one process on one database."`
	Remember  rememberCmd  `cmd:"" help:"Store a memory."`
	Recall    recallCmd    `cmd:"" help:"Find the memories that matter for a query."`
	Get       getCmd       `cmd:"" help:"Show memories by id."`
	List      listCmd      `cmd:"" help:"List memories, newest first."`
	Update    updateCmd    `cmd:"" help:"Change a memory."`
	Supersede supersedeCmd `cmd:"" help:"Replace a memory by a newer one and keep the old one on record."`
	Forget    forgetCmd    `cmd:"" help:"Remove memories and everything derived from them."`
	Import    importCmd    `cmd:"" help:"Store memories from a JSONL file, a folder of notes or claude-memory-mcp; running it again stores nothing twice."`
	Export    exportCmd    `cmd:"" help:"Write every memory of a namespace as JSONL."`
	Backup    backupCmd    `cmd:"" help:"Write all namespaces of a database into a file with a checksum, while it is in use."`
	Restore   restoreCmd   `cmd:"" help:"Verify a backup and store what it holds."`
	MCP       mcpCmd       `cmd:"" name:"mcp" help:"Offer the memories to an agent over the Model Context Protocol."`
	Hook      hookCmd      `cmd:"" help:"Print what is known about a prompt, for an agent's hook."`
	Curation  curationCmd  `cmd:"" help:"See and undo what the curator's model decided about new memories."`
	Namespace namespaceCmd `cmd:"" help:"List, count, rename or delete namespaces."`
	Doctor    doctorCmd    `cmd:"" help:"Check that everything works."`
	Graph     graphCmd     `cmd:"" help:"Look into the graph of a namespace, and add facts to it, in the database itself."`
	Queue     queueCmd     `cmd:"" help:"Look after what the indexes have yet to catch up with, in the database itself."`
	Reembed   reembedCmd   `cmd:"" help:"Change the embedding model of a database, without downtime."`
	Models    modelsCmd    `cmd:"" help:"List a database's embedding models, and care for them."`
	Lexical   lexicalCmd   `cmd:"" help:"Care for the index of words."`
	Migrate   migrateCmd   `cmd:"" help:"Bring a database to this program's schema, or show how far it is and what is to do."`
	Demo      demoCmd      `cmd:"" help:"Show what recall does, on a temporary database."`
	Eval      evalCmd      `cmd:"" help:"Measure recall on a data set with known answers."`
	Budget    budgetCmd    `cmd:"" help:"Say from recorded traces which hop spends the time of recalls, and what another budget would have dropped and cost."`
	Token     tokenCmd     `cmd:"" help:"Make, list and revoke the tokens that callers show to a gateway."`
	Version   versionCmd   `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(env *Env) error { return env.print(telemetry.Version() + "\n") }

// Run executes one command line, without the program's name, and returns the code to exit with.
func Run(ctx context.Context, args []string, env Env) int {
	exited := -1 // set when kong has printed the help or the version
	parser, err := kong.New(&commands{},
		kong.Name("triskele"), kong.Description(description),
		kong.Writers(env.Out, env.Err), kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"listen": "127.0.0.1:7400", "tls_clients": "", "admin": admin.Beside("127.0.0.1:7400"), "version": telemetry.Version(), "configs": strings.Join(eval.ConfigNames(), ", "), "scorers": strings.Join(lexical.ScorerNames, ","), "languages": strings.Join(lexical.Languages(), ", ")},
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&env))
	if err != nil {
		_, _ = fmt.Fprintln(env.Err, "error:", err)
		return exitFailure
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		command := "triskele"
		var wrong *kong.ParseError
		if errors.As(err, &wrong) && wrong.Context != nil && wrong.Context.Selected() != nil {
			command = wrong.Context.Selected().FullPath()
		}
		_, _ = fmt.Fprintf(env.Err, "error: %v\nSee %s --help\n", err, command)
		if args[0] == "hook" {
			return exitOK // an agent would take any other for a veto on the prompt
		}
		return exitUsage
	}
	if err := command.Run(); err != nil {
		style := render.StyleOf(env.Err, env.plain())
		_, _ = fmt.Fprint(env.Err, style.Bad("error:")+" "+message(ctx, err)+"\n")
		if skipped := (*skippedError)(nil); errors.Is(err, errMissing) || errors.As(err, &skipped) {
			return exitPartly
		}
		return exitFailure
	}
	return exitOK
}

// printJSON writes a message for programs.
func (e *Env) printJSON(m proto.Message) error {
	text, err := render.JSON(m)
	if err != nil {
		return err
	}
	return e.print(string(text))
}

// printValue is printJSON for what is no message.
func (e *Env) printValue(v any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// printLine writes a value of a list as a line of JSON.
func (e *Env) printLine(v any) error {
	encoder := json.NewEncoder(e.Out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
