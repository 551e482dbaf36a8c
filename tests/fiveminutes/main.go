// Command fiveminutes does what docs/start.md says, as a new user would: it clones the repository into a temporary folder, builds with
// empty caches of modules and of compiled packages, starts the service, and has an agent, the MCP SDK's client, store something and
// another one recall it. Then it connects Claude Code, plays a session of it with its files and its hooks, restarts everything, and
// begins the next session. It times each step and writes docs/start-transcript.md.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// limit is what a new user was promised, and warm what it may take without downloading modules.
const (
	limit = 5 * time.Minute
	warm  = 90 * time.Second
)

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
	total, download := u.took()
	if total > limit || total-download > warm {
		return fmt.Errorf("it took %v, and %v without the modules: more than %v, or %v", total.Round(time.Second), (total - download).Round(time.Second), limit, warm)
	}
	return nil
}

// user is someone who has git, make and Go, and nothing of this project.
type user struct {
	dir, origin string
	env         []string
	began       time.Time
	steps       []step
	program     string
	address     string       // of the service
	down        func() error // stops it
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

// downloading is the step that a second build needs no more.
const downloading = "# Go downloads the modules"

// took returns the time of all steps, and of downloading.
func (u *user) took() (total, download time.Duration) {
	for _, s := range u.steps {
		if total += s.took; s.command == downloading {
			download = s.took
		}
	}
	return total, download
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
	if err := u.do(downloading, func() (string, error) {
		_, err := u.command(ctx, "triskele", "go", "list", "-deps", "./services/cmd/triskele").Output()
		return "", explained(err)
	}); err != nil {
		return err
	}
	if err := u.do("make build PROGRAMS=triskele", func() (string, error) {
		_, err := u.command(ctx, "triskele", "make", "build", "PROGRAMS=triskele").Output()
		return "", explained(err)
	}); err != nil {
		return err
	}
	u.program = filepath.Join(u.dir, "triskele", "bin", "triskele")
	if err := u.up(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { _ = u.down() }()
	agent := func(tool string, arguments map[string]any) func() (string, error) {
		return func() (string, error) {
			return call(ctx, u.command(ctx, "triskele", u.program, "mcp", "--address", u.address), tool, arguments)
		}
	}
	if err := u.do(`# an agent starts "bin/triskele mcp" and calls remember`, agent("remember", map[string]any{
		"content": "Deploys are frozen from Thursday noon.", "title": "Deploy freeze"})); err != nil {
		return err
	}
	recalled := agent("recall", map[string]any{"query": "can I still deploy on Friday?"})
	if err := u.do(`# another one starts it and calls recall: "can I still deploy on Friday?"`, func() (string, error) {
		text, err := recalled()
		if err == nil && !strings.Contains(text, "Deploys are frozen from Thursday noon.") {
			err = errors.New("what was remembered was not recalled")
		}
		return text, err
	}); err != nil {
		return err
	}
	return u.session(ctx)
}

// up starts the service.
func (u *user) up(ctx context.Context, listen string) error {
	return u.do("bin/triskele up &", func() (string, error) {
		serving, stop := context.WithCancel(ctx)
		up := u.command(serving, "triskele", u.program, "up", "--listen", listen, "--admin", "off")
		u.down = func() error { stop(); return up.Wait() }
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
		u.address, _, _ = strings.Cut(rest, ";")
		return line, nil
	})
}

// fact is what is said in the session.
const fact = "We service the harbour crane in spring."

// session connects Claude Code, plays a session, restarts the service and begins the next session.
func (u *user) session(ctx context.Context) error {
	if err := u.do("bin/triskele connect claude-code --address 127.0.0.1:7400", func() (string, error) {
		out, err := u.command(ctx, "triskele", u.program, "connect", "claude-code", "--address", u.address).Output()
		return string(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]), explained(err)
	}); err != nil {
		return err
	}
	home := filepath.Join(u.dir, "home")
	transcript := filepath.Join(home, ".claude", "projects", "harbour", "s1.jsonl")
	line, err := json.Marshal(map[string]any{
		"type": "user", "uuid": "1", "sessionId": "s1", "cwd": filepath.Join(home, "harbour"), "timestamp": time.Now().UTC(), "message": map[string]any{"content": fact},
	})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(transcript), 0o755)
	}
	if err == nil {
		err = os.WriteFile(transcript, append(line, '\n'), 0o600)
	}
	if err != nil {
		return err
	}
	if err := u.do(fmt.Sprintf("# a session in which the user says %q, and the agent's Stop event", fact), func() (string, error) {
		if out, err := u.event(ctx, "Stop", "s1", ""); err != nil {
			return out, err
		}
		return "", u.kept(ctx, home)
	}); err != nil {
		return err
	}
	if err := u.do("# everything is stopped", func() (string, error) {
		err := u.down()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", err
		}
		return "", nil
	}); err != nil {
		return err
	}
	if err := u.up(ctx, u.address); err != nil {
		return err
	}
	for _, next := range []struct{ session, event, more string }{
		{"s2", "SessionStart", `,"source":"startup"`}, {"s3", "UserPromptSubmit", `,"prompt":"when is the harbour crane serviced?"`},
	} {
		if err := u.do("# another session: its "+next.event+" event", func() (string, error) {
			out, err := u.event(ctx, next.event, next.session, next.more)
			if err == nil && !strings.Contains(out, fact) {
				err = errors.New("what was said is not known in the next session")
			}
			return out, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// kept waits until the process that the hook has left behind has kept its position, which it does when the session is stored.
func (u *user) kept(ctx context.Context, home string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if kept, _ := filepath.Glob(filepath.Join(home, ".local", "state", "triskele", "capture", "*.json")); len(kept) > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the session was not captured")
		}
	}
}

// event runs a hook as Claude Code does, by its own settings, and returns what it prints.
func (u *user) event(ctx context.Context, name, session, more string) (string, error) {
	var settings struct {
		Hooks map[string][]struct{ Hooks []struct{ Command string } }
	}
	text, err := os.ReadFile(filepath.Join(u.dir, "home", ".claude", "settings.json"))
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		return "", err
	}
	groups := settings.Hooks[name]
	if len(groups) == 0 {
		return "", fmt.Errorf("connect has written no hook for %s", name)
	}
	cmd := u.command(ctx, "home", "sh", "-c", groups[0].Hooks[0].Command)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":%q,"transcript_path":%q,"cwd":%q,"hook_event_name":%q%s}`, session,
		filepath.Join(u.dir, "home", ".claude", "projects", "harbour", session+".jsonl"), filepath.Join(u.dir, "home", "harbour"), name, more))
	out, err := cmd.Output()
	return string(out), explained(err)
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
	var busy time.Duration
	for _, s := range u.steps {
		busy += s.busy
	}
	total, download := u.took()
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	fmt.Fprintf(&b, `# From a clone to an agent that remembers

    make five-minutes

- Date: %s
- Machine: %s; one-minute load average %s afterwards
- A clone of a repository on this machine, so without its download; empty caches of Go modules and of compiled packages
- The agents are clients of the MCP SDK, each in a session of its own; then Claude Code's files and events

**%.0f seconds** in all, **%.0f** without downloading the modules, with %.0f seconds of processor time, which is what other work on the
machine does not change.

`, u.began.UTC().Format(time.DateOnly), eval.ThisMachine(), average, total.Seconds(), (total - download).Seconds(), busy.Seconds())
	b.WriteString("| step | seconds | of processor time |\n|---|--:|--:|\n")
	for _, s := range u.steps {
		fmt.Fprintf(&b, "| `%s` | %.1f | %.1f |\n", strings.TrimPrefix(s.command, "# "), s.took.Seconds(), s.busy.Seconds())
	}
	b.WriteString("\nWhat was seen:\n\n```console\n")
	for _, s := range u.steps {
		fmt.Fprintf(&b, "%s\n%s", s.prompted(), strings.NewReplacer(u.dir, "…", u.address, "127.0.0.1:7400").Replace(s.output))
	}
	b.WriteString("```\n")
	return b.String()
}
