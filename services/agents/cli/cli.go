// Package cli is the command-line program triskele. Each command is a small struct of kong flags with a Run method,
// and with a text in help.txt if its flags need more words.
//
// The general process for a command line is:
//  1. Run parses the arguments, the environment and the configuration file into the struct commands.
//  2. kong calls Validate of each selected flag group, then Run of the selected command.
//  3. Most commands call a gateway over gRPC with gatewayFlags.with.
//  4. Commands about the database itself (migrate, models, queue, graph) open it with databaseFlags.
//  5. mcp and hook use storeFlags: a gateway if one is named, else a system in this process.
//  6. Run maps the error to a message on standard error and an exit code.
package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/manual"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/agents/internal/home"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/lexical"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitPartly  = 3
)

// partlyError ends a command with exitPartly.
type partlyError struct{ error }

// about describes the program for help, manual page and reference.
var about = manual.Program{
	Name:        "triskele",
	Description: `A recall service for agents: remembers short texts and finds the ones that matter. Start it with "triskele up".`,
	Exits: []manual.Exit{
		{Code: exitOK, Meaning: "Success, also if there was nothing to do. The hook always exits so."},
		{Code: exitFailure, Meaning: "Failure: standard error has the cause."},
		{Code: exitUsage, Meaning: "Wrong usage: an error in the command line, an environment variable or the configuration file, also where the gateway finds it (INVALID_ARGUMENT)."},
		{Code: exitPartly, Meaning: "Something is left to do: migrations are missing, or an import skipped something."},
	},
}

// Env is the program's environment.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	Started  time.Time // start time of the process
	Folder   string    // working directory; empty if it is unknown

	palette render.Palette // value of --color
	args    []string       // of the command line
}

// style is standard output's.
func (e *Env) style() render.Style { return e.styleOf(e.Out) }

func (e *Env) styleOf(out io.Writer) render.Style {
	palette := e.palette
	if palette != render.Always && (e.Getenv("NO_COLOR") != "" || e.Getenv("TERM") == "dumb") {
		palette = render.Never
	}
	return render.StyleOf(out, palette)
}

// home has the folders of the user.
func (e *Env) home() home.Home { return home.Home{GOOS: runtime.GOOS, Getenv: e.Getenv} }

// shared are the flags of all commands.
type shared struct {
	settings.Source
	Color render.Palette `help:"When to colour: auto (on a terminal, unless NO_COLOR is set), always or never." enum:"auto,always,never" default:"auto" env:"TRISKELE_COLOR"`
}

// hookOnly has the command that agents wait for. Reading the model of all commands takes longer than all else that the hook does.
type hookOnly struct {
	shared
	Hook hookCmd `cmd:""`
}

type commands struct {
	shared

	Up         upCmd         `cmd:"" group:"Run it:" help:"Run all services in one process on one database."`
	Remember   rememberCmd   `cmd:"" group:"Memories:" help:"Store a memory."`
	Recall     recallCmd     `cmd:"" group:"Memories:" help:"Find the memories that matter for a query."`
	Get        getCmd        `cmd:"" group:"Memories:" help:"Show memories by id."`
	List       listCmd       `cmd:"" group:"Memories:" help:"List memories, newest first."`
	Update     updateCmd     `cmd:"" group:"Memories:" help:"Change a memory."`
	Supersede  supersedeCmd  `cmd:"" group:"Memories:" help:"Replace a memory by a newer one and keep the old one on record."`
	Forget     forgetCmd     `cmd:"" group:"Memories:" help:"Remove memories and everything derived from them."`
	Import     importCmd     `cmd:"" group:"Memories:" help:"Store memories from a JSONL file, a folder of notes, agents' sessions, exports of chats or another memory server; running it again stores nothing twice."`
	Sync       syncCmd       `cmd:"" group:"Memories:" help:"Keep the memories of a folder of notes as the notes are."`
	Export     exportCmd     `cmd:"" group:"Memories:" help:"Write every memory of a namespace as JSONL."`
	MCP        mcpCmd        `cmd:"" group:"Agents:" name:"mcp" help:"Offer the memories to an agent over the Model Context Protocol."`
	Hook       hookCmd       `cmd:"" group:"Agents:" help:"Answer an agent's events: print what is known about a prompt, and store what was said."`
	Capture    captureCmd    `cmd:"" group:"Agents:" help:"Store what was said in an agent's session."`
	Connect    connectCmd    `cmd:"" group:"Agents:" help:"Give the memories to an agent: write the MCP server and the hooks into its configuration."`
	Service    serviceCmd    `cmd:"" group:"Run it:" help:"Keep the gateway running for this user, after a reboot too."`
	Curation   curationCmd   `cmd:"" group:"Memories:" help:"List and revert the curator's decisions about new memories."`
	Namespace  namespaceCmd  `cmd:"" group:"Memories:" help:"List, count, rename or delete namespaces."`
	Backup     backupCmd     `cmd:"" group:"Look after it:" help:"Write all namespaces of a database into a file with a checksum, while it is in use."`
	Restore    restoreCmd    `cmd:"" group:"Look after it:" help:"Verify a backup and store its memories."`
	Doctor     doctorCmd     `cmd:"" group:"Look after it:" help:"Check that everything works."`
	Graph      graphCmd      `cmd:"" group:"Look after it:" help:"Inspect the graph of a namespace and add facts to it, in the database itself."`
	Queue      queueCmd      `cmd:"" group:"Look after it:" help:"List and retry memories that wait to be indexed, in the database itself."`
	Reembed    reembedCmd    `cmd:"" group:"Look after it:" help:"Change the embedding model of a database, without downtime."`
	Models     modelsCmd     `cmd:"" group:"Look after it:" help:"List and manage the embedding models of a database."`
	Lexical    lexicalCmd    `cmd:"" group:"Look after it:" help:"Configure and rebuild the lexical index."`
	Migrate    migrateCmd    `cmd:"" group:"Look after it:" help:"Migrate a database to this program's schema, or show what is missing."`
	Demo       demoCmd       `cmd:"" group:"Try it:" help:"Show what recall does, on a temporary database."`
	Eval       evalCmd       `cmd:"" group:"Try it:" help:"Measure recall on a data set with known answers."`
	Budget     budgetCmd     `cmd:"" group:"Look after it:" help:"Show from recorded traces where recalls spend their time, and what another budget would drop and cost."`
	Token      tokenCmd      `cmd:"" group:"Look after it:" help:"Make, list and revoke the tokens that callers show to a gateway."`
	Completion completionCmd `cmd:"" group:"This program:" help:"Print the completion script of a shell."`
	Man        manCmd        `cmd:"" group:"This program:" help:"Print the manual page."`
	Version    versionCmd    `cmd:"" group:"This program:" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

type versionCmd struct{}

func (versionCmd) Run(env *Env) error { return env.print(telemetry.Version() + "\n") }

// newParser makes a parser that fills root.
func newParser(root any, options ...kong.Option) (*kong.Kong, error) {
	if _, all := root.(*commands); all {
		options = append(options, kong.PostBuild(withDetails))
	}
	return kong.New(root, append(options,
		kong.Name(about.Name), kong.Description(about.Help()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"listen": "127.0.0.1:7400", "tls_clients": "", "admin": admin.Beside("127.0.0.1:7400"), "version": telemetry.Version(), "clients": clientNames(), "configs": strings.Join(eval.ConfigNames(), ", "), "scorers": strings.Join(lexical.ScorerNames, ","), "languages": strings.Join(lexical.Languages(), ", ")},
		kong.PostBuild(varsWhereUsed), settings.Durations(),
	)...)
}

//go:embed help.txt
var helpTexts string

// withDetails gives commands their texts from help.txt, which are shown below their flags.
func withDetails(k *kong.Kong) error {
	wrapped := regexp.MustCompile(`(\S)\n(\S)`)
	for section := range strings.SplitSeq(strings.TrimPrefix(helpTexts, "# "), "\n# ") {
		path, text, _ := strings.Cut(section, "\n")
		node := commandAt(k.Model.Node, strings.Fields(path))
		if node == nil {
			return fmt.Errorf("help.txt has a text for %q, which is no command", path)
		}
		node.Detail = wrapped.ReplaceAllString(strings.TrimSpace(text), "$1 $2")
	}
	return nil
}

// commandAt returns the visible command at a path below a node, or nil.
func commandAt(node *kong.Node, path []string) *kong.Node {
	for _, name := range path {
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name && !n.Hidden })
		if at < 0 {
			return nil
		}
		node = node.Children[at]
	}
	return node
}

// varsWhereUsed gives kong's variables to the values that name one. Kong expands all variables anew for every value that
// has them, which takes most of a command's start.
func varsWhereUsed(k *kong.Kong) error {
	vars := k.Model.Tag.Vars
	k.Model.Tag.Vars = nil
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if value, ok := node.(*kong.Value); ok && strings.Contains(value.Help+value.Default+value.Enum, "${") {
			value.Tag.Vars = vars
		}
		return next(nil)
	})
}

// Run executes one command line without the program's name. It returns the exit code.
func Run(ctx context.Context, args []string, env Env) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	exited := -1 // set when kong has printed the help or the version
	parse := func(root any, common *shared) (*kong.Context, error) {
		for _, arg := range args {
			if !utf8.ValidString(arg) { // kong would replace what is broken
				return nil, fmt.Errorf("argument %q is not UTF-8", arg)
			}
		}
		parser, err := newParser(root, kong.Writers(env.Out, env.Err), kong.Exit(func(code int) { exited = code }),
			kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&env))
		if err != nil {
			return nil, err
		}
		command, err := parser.Parse(args)
		env.palette, env.args = common.Color, args
		return command, err
	}
	var command *kong.Context
	err := errors.New("not parsed")
	if args[0] == "hook" && !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		root := &hookOnly{}
		command, err = parse(root, &root.shared)
	}
	if err != nil { // all commands know what is wrong
		root := &commands{}
		command, err = parse(root, &root.shared)
	}
	if exited >= 0 {
		return exited
	}
	if err != nil {
		command := "triskele"
		if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context != nil && wrong.Context.Selected() != nil {
			command = wrong.Context.Selected().FullPath()
		}
		hint := ""
		if verb := strings.TrimPrefix(command, "triskele "); strings.HasPrefix(err.Error(), "unexpected argument ") && (verb == "remember" || verb == "recall" || verb == "supersede") {
			hint = fmt.Sprintf("; put a text of several words in quotes: %s \"several words\"", command)
		}
		text := strings.Replace(err.Error(), `one of "",`, "one of ", 1) // the empty choice means that the flag is not given
		_, _ = fmt.Fprintf(env.Err, "error: %s%s\nSee %s --help\n", text, hint, command)
		if args[0] == "hook" || command == "triskele hook" {
			return exitOK // agents treat other exit codes as a veto on the prompt
		}
		return exitUsage
	}
	if err := command.Run(); err != nil {
		_, _ = fmt.Fprint(env.Err, env.styleOf(env.Err).Bad("error:")+" "+message(ctx, err)+"\n")
		if _, partly := errors.AsType[partlyError](err); partly {
			return exitPartly
		}
		if settings.IsWrong(err) || status.Code(err) == codes.InvalidArgument {
			return exitUsage
		}
		return exitFailure
	}
	return exitOK
}
