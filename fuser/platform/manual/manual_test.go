package manual_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/manual"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shared are the flags of several commands.
type shared struct {
	Address string `help:"Where to." default:"here" env:"PROG_ADDRESS" group:"Gateway:"`
	KeyFile string `help:"A key." placeholder:"FILE" group:"Gateway:"`
}

// grammar has everything once that the generators tell apart, and texts that mean something to a shell or to roff.
type grammar struct {
	Verbose bool `short:"v" help:"Say more."`
	Ask     struct {
		Query  string   `arg:"" help:".Begins with a dot | has a bar."`
		Sort   string   `help:"It's 'quoted', $HOME and \\ [x]: \"y\"." enum:"rank,time" default:"rank"`
		Folder string   `help:"Where." placeholder:"DIR"`
		Tag    []string `help:"Tags."`
		Prefix bool     `help:"Whether to." negatable:""`
		Secret string   `help:"Nobody sees it." hidden:""`
		shared
	} `cmd:"" help:"Ask <something>."`
	Note struct {
		Add  noteCmd `cmd:"" help:"Add a note."`
		Drop struct {
			ID    string `arg:"" help:"Which."`
			Force bool   `required:"" help:"Really."`
			shared
		} `cmd:"" help:"Drop one."`
		Hide struct{} `cmd:"" hidden:"" help:"Nobody sees it."`
	} `cmd:"" help:"Keep notes."`
	Load struct {
		File []string `arg:"" optional:"" help:"Files."`
		Kind string   `help:"Kind." enum:"notes,asks" required:""`
	} `cmd:"" help:"Load files."`
	Manual manual.Flag `help:"This."`
}

type noteCmd struct {
	Text string `arg:"" help:"The text."`
}

func (*noteCmd) Help() string { return "A note is short.\n\n    prog note add 'tea'\n\nOr long." }

var about = manual.Program{Name: "prog", Description: "Asks and notes. It's an example.", Exits: []manual.Exit{{Code: 0, Meaning: "Success."}, {Code: 7, Meaning: "Bad luck."}}}

// run parses a command line and returns what is printed.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	parser, err := kong.New(&grammar{}, kong.Name(about.Name), kong.Description(about.Help()), kong.Writers(&out, &out), kong.Exit(func(int) {}), kong.Bind(about))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = parser.Parse(args) // that a command lacks is what the flag comes before
	return out.String()
}

func TestForms(t *testing.T) {
	for _, form := range append([]string{"man", "markdown"}, manual.Shells...) {
		text := run(t, "--manual="+form)
		path := filepath.Join("testdata", form+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: got\n%s", form, text)
		}
		if strings.Contains(text, "Nobody sees it") {
			t.Errorf("%s shows what is hidden", form)
		}
	}
	if text := run(t, "--help"); !strings.Contains(text, "    7  Bad luck.\n") {
		t.Errorf("the help lacks exit codes:\n%s", text)
	}
}

// TestHeadingsAreTheirOwn: groups of the same title with other flags, each of several commands, have a heading each that the
// commands' links lead to.
func TestHeadingsAreTheirOwn(t *testing.T) {
	type near struct {
		Port string `help:"Where to." group:"Gateway:"`
	}
	type far struct {
		Host string `help:"Where to." group:"Gateway:"`
	}
	var grammar struct {
		A struct{ near } `cmd:""`
		B struct{ near } `cmd:""`
		C struct{ far }  `cmd:""`
		D struct{ far }  `cmd:""`
	}
	parser, err := kong.New(&grammar, kong.Name(about.Name))
	if err != nil {
		t.Fatal(err)
	}
	text := about.Markdown(parser.Model)
	for heading, flag := range map[string]string{
		"Flags of several commands of prog: Gateway":     "--port",
		"Flags of several commands of prog: Gateway (2)": "--host",
	} {
		_, below, found := strings.Cut(text, "### "+heading+"\n")
		below, _, _ = strings.Cut(below, "###")
		if !found || !strings.Contains(below, flag) || strings.Count(text, "### "+heading+"\n") != 1 {
			t.Errorf("%q:\n%s", heading, text)
		}
	}
	for link, n := range map[string]int{"(#flags-of-several-commands-of-prog-gateway)": 2, "(#flags-of-several-commands-of-prog-gateway-2)": 2} {
		if strings.Count(text, link) != n {
			t.Errorf("%d links %s:\n%s", strings.Count(text, link), link, text)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "prog.bash")
	if err := os.WriteFile(script, []byte(run(t, "--manual=bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"no":                        "note",
		"note ":                     "add drop --help --verbose --manual",
		"note d":                    "drop",
		"note drop --f":             "--force",
		"note drop --a":             "--address",
		"ask note --s":              "--sort",
		"ask x --sort ":             "rank time",
		"ask x --sort = t":          "time",
		"ask x --no":                "--no-prefix",
		"ask x --key-file not":      "notes.txt",
		"ask x --key-file = not":    "notes.txt",
		"ask x --tag ":              "",
		"load --kind ":              "notes asks",
		"load not":                  "notes.txt",
		"load -":                    "--help --verbose --manual --kind",
		"--verbose note drop x --f": "--force",
	} {
		words := append([]string{"prog"}, strings.Split(line, " ")...)
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", `
			source "$0"
			compopt() { :; } # there is no line to edit
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
			_prog
			echo "${COMPREPLY[*]}"`, script}, words...)...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != want {
			t.Errorf("%q: %q, want %q (%v)", line, got, want, err)
		}
	}
}
