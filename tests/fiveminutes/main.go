// Command fiveminutes does what docs/start.md says, as a new user would: it clones the repository into a temporary folder, builds with
// empty caches of modules and of compiled packages, starts the service, and has an agent, the MCP SDK's client, store something and
// another one recall it. It times each step and writes docs/start-transcript.md.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/triskele/triskele/services/eval"
)

// limit is what a new user was promised.
const limit = 5 * time.Minute

func main() {
	out := flag.String("out", filepath.Join("docs", "start-transcript.md"), "`FILE` for the transcript")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "triskele-five-minutes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	u, err := newUser(ctx, dir)
	if err != nil {
		return err
	}
	if err := u.start(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(out, []byte(u.report()), 0o644); err != nil {
		return err
	}
	if took := time.Since(u.began); took > limit {
		return fmt.Errorf("it took %v, more than %v", took.Round(time.Second), limit)
	}
	return nil
}

// user is someone who has git, make and Go, and nothing of this project.
type user struct {
	dir, origin string
	env         []string
	began       time.Time
	steps       []step
}

// step is something that was done, and what was seen of it. One that is no command of a shell begins with "# ".
type step struct {
	command, output string
	took            time.Duration
	busy            time.Duration // processor time of the programs that ended in it
}

// prompted is the step as a terminal would show it.
func (s step) prompted() string {
	if strings.HasPrefix(s.command, "# ") {
		return s.command
	}
	return "$ " + s.command
}

func newUser(ctx context.Context, dir string) (*user, error) {
	origin, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	u := &user{dir: dir, origin: strings.TrimSpace(string(origin))}
	for _, variable := range os.Environ() {
		// A proxy for modules belongs to the machine, all else of Go and of this program to whoever works on it.
		name, _, _ := strings.Cut(variable, "=")
		if proxy := strings.HasPrefix(name, "GOPROXY") || strings.HasPrefix(name, "GOSUMDB"); proxy || !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "TRISKELE_") && !strings.HasPrefix(name, "XDG_") {
			u.env = append(u.env, variable)
		}
	}
	u.env = append(u.env, "HOME="+filepath.Join(dir, "home"), "GOENV="+goEnv(ctx), "GOMODCACHE="+filepath.Join(dir, "modules"), "GOCACHE="+filepath.Join(dir, "compiled"),
		"GOFLAGS=-modcacherw") // so that the folder can be removed
	return u, os.Mkdir(filepath.Join(dir, "home"), 0o755)
}

// goEnv is the file in which the machine may name its proxy for modules.
func goEnv(ctx context.Context) string {
	name, _ := exec.CommandContext(ctx, "go", "env", "GOENV").Output()
	return strings.TrimSpace(string(name))
}

// do times a step and notes what came of it.
func (u *user) do(command string, work func() (string, error)) error {
	fmt.Println(step{command: command}.prompted())
	start, before := time.Now(), processorTime()
	output, err := work()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, output)
	}
	took := time.Since(start)
	fmt.Printf("%s(%.1f s)\n", output, took.Seconds())
	u.steps = append(u.steps, step{command: command, output: output, took: took, busy: processorTime() - before})
	return nil
}

// processorTime is what the programs that this one has started, and waited for, have used. It hardly depends on what else a machine does.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// command prepares a program in a folder of the user's.
func (u *user) command(ctx context.Context, folder, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = filepath.Join(u.dir, folder), u.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// start does it all.
func (u *user) start(ctx context.Context) error {
	u.began = time.Now()
	if err := u.do("git clone URL triskele", func() (string, error) {
		_, err := u.command(ctx, "", "git", "clone", "--quiet", "--no-local", u.origin, "triskele").Output()
		return "", explained(err)
	}); err != nil {
		return err
	}
	if err := u.do("make build", func() (string, error) {
		_, err := u.command(ctx, "triskele", "make", "build").Output()
		return "", explained(err)
	}); err != nil {
		return err
	}
	program := filepath.Join(u.dir, "triskele", "bin", "triskele")
	serving, stop := context.WithCancel(ctx)
	up := u.command(serving, "triskele", program, "up", "--listen", "127.0.0.1:0", "--admin", "off")
	defer func() {
		stop()
		_ = up.Wait()
	}()
	var address string
	if err := u.do("bin/triskele up &", func() (string, error) {
		printed, err := up.StdoutPipe()
		if err != nil {
			return "", err
		}
		if err := up.Start(); err != nil {
			return "", err
		}
		line, err := bufio.NewReader(printed).ReadString('\n')
		if err != nil {
			return line, fmt.Errorf("it did not start: %w", err)
		}
		go func() { _, _ = io.Copy(io.Discard, printed) }()
		_, rest, _ := strings.Cut(line, " listens on ")
		address, _, _ = strings.Cut(rest, ";")
		return strings.ReplaceAll(line, address, "127.0.0.1:7400"), nil
	}); err != nil {
		return err
	}
	agent := func(tool string, arguments map[string]any) func() (string, error) {
		return func() (string, error) {
			return call(ctx, u.command(ctx, "triskele", program, "mcp", "--address", address), tool, arguments)
		}
	}
	if err := u.do(`# an agent starts "bin/triskele mcp" and calls remember`, agent("remember", map[string]any{
		"content": "Deploys are frozen from Thursday noon.", "title": "Deploy freeze"})); err != nil {
		return err
	}
	recalled := agent("recall", map[string]any{"query": "can I still deploy on Friday?"})
	return u.do(`# another one starts it and calls recall: "can I still deploy on Friday?"`, func() (string, error) {
		text, err := recalled()
		if err == nil && !strings.Contains(text, "Deploys are frozen from Thursday noon.") {
			err = errors.New("what was remembered was not recalled")
		}
		return text, err
	})
}

// call has an agent of its own start the server and call one tool.
func call(ctx context.Context, server *exec.Cmd, tool string, arguments map[string]any) (string, error) {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "five-minutes", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range result.Content {
		if part, ok := part.(*mcp.TextContent); ok {
			text.WriteString(strings.TrimSpace(part.Text) + "\n")
		}
	}
	if result.IsError {
		return text.String(), errors.New("the tool failed")
	}
	return text.String(), nil
}

// explained adds to a program's failure the end of what it said.
func explained(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr[max(0, len(exit.Stderr)-2000):]))
	}
	return err
}

// report is the transcript.
func (u *user) report() string {
	var b strings.Builder
	var total, busy time.Duration
	for _, s := range u.steps {
		total, busy = total+s.took, busy+s.busy
	}
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	fmt.Fprintf(&b, `# From a clone to an agent that remembers

    make five-minutes

- Date: %s
- Machine: %s; one-minute load average %s afterwards
- A clone of a repository on this machine, so without its download; empty caches of Go modules and of compiled packages
- The agents are clients of the MCP SDK, each in a session of its own

**%.0f seconds** in all, with %.0f seconds of processor time, which is what other work on the machine does not change.

`, u.began.UTC().Format(time.DateOnly), eval.ThisMachine(), average, total.Seconds(), busy.Seconds())
	b.WriteString("| step | seconds | of processor time |\n|---|--:|--:|\n")
	for _, s := range u.steps {
		fmt.Fprintf(&b, "| `%s` | %.1f | %.1f |\n", strings.TrimPrefix(s.command, "# "), s.took.Seconds(), s.busy.Seconds())
	}
	b.WriteString("\nWhat was seen:\n\n```console\n")
	for _, s := range u.steps {
		fmt.Fprintf(&b, "%s\n%s", s.prompted(), strings.ReplaceAll(s.output, u.dir, "…"))
	}
	b.WriteString("```\n")
	return b.String()
}
