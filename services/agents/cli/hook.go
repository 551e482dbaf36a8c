package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/capture"
	"github.com/triskele/triskele/services/agents/hook"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type captureCmd struct {
	Transcript string `arg:"" help:"A session's file of Claude Code, Codex or Gemini CLI."`
	DryRun     bool   `help:"Print what would be kept, and store nothing."`
	jsonFlag
	namespaceFlag
	Store storeFlags `embed:""`
}

// Run stores the turns that are not stored yet, whatever hooks have stored elsewhere.
func (c *captureCmd) Run(ctx context.Context, env *Env) error {
	path, err := filepath.Abs(c.Transcript)
	if err != nil {
		return err
	}
	session := capture.Session{Path: path, Namespace: c.Namespace, Now: env.Now(), Private: env.private}
	var report capture.Report
	text := ""
	if c.DryRun {
		if report, err = session.Preview(); err != nil {
			return err
		}
		for _, m := range report.Memories {
			text += m.GetMetadata().GetFields()["role"].GetStringValue() + ": " + render.Lines(m.GetContent()) + "\n"
		}
	} else {
		process, err := telemetry.Start(ctx)
		if err != nil {
			return err
		}
		defer flush(ctx, process)
		if report, err = captured(ctx, env, process, c.Store, session); err != nil {
			return err
		}
	}
	text += fmt.Sprintf("%d kept, %d known, %d short, %d ignored; %d secrets replaced\n", report.Kept, report.Known, report.Short, report.Ignored, report.Redacted)
	if c.DryRun {
		return env.show(c.JSON, struct {
			capture.Report
			Memories []apiMessage `json:"memories"` // those that would be kept
		}{report, slice.Map(report.Memories, func(m *triskelev1.Memory) apiMessage { return apiMessage{m} })}, text)
	}
	return env.show(c.JSON, report, text)
}

func captured(ctx context.Context, env *Env, process *telemetry.Process, store storeFlags, session capture.Session) (_ capture.Report, err error) {
	conn, stop, err := store.open(ctx, env, process, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return capture.Report{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	c := client.New(conn)
	report, err := session.Run(ctx, capture.Store{Get: c.Memories.Get, Recall: c.Recalls.Recall, Import: c.Import})
	if err == nil && report.Kept > 0 && store.Address == "" { // no other process brings the indexes up to date
		waiting, cancel := context.WithTimeout(ctx, indexTime)
		defer cancel()
		_ = c.WaitIndexed(waiting, session.Namespace, nil) // what is not indexed is stored, and found by its words
	}
	return report, err
}

// indexTime bounds the wait for the indexes of a database that no other process brings up to date.
const indexTime = 10 * time.Second

type hookCmd struct {
	Within    *time.Duration `help:"Exit at the latest this long after the start; if not given, 300ms with a gateway, and 1s without." env:"TRISKELE_HOOK_WITHIN" placeholder:"TIME"`
	MaxTokens int            `help:"Maximum number of tokens to print, estimated." default:"600" env:"TRISKELE_HOOK_MAX_TOKENS"`
	MinScore  float64        `help:"Minimum probability that a memory is relevant to the prompt, 0 to 1." default:"0.08" env:"TRISKELE_HOOK_MIN_SCORE"`
	Sensitive bool           `help:"Also print sensitive memories."`
	Capture   wish           `help:"Store what was said when the agent has answered. Yes, true, 1, on and an empty value mean so, all others do not." default:"true" negatable:"" env:"TRISKELE_CAPTURE"`
	Format    string         `help:"Output format: json as the calling agent expects it, or text." enum:"json,text" default:"json"`
	Why       bool           `help:"Print the reason to standard error if nothing is printed."`
	Detached  bool           `help:"Store what was said, as the process that the hook leaves behind." hidden:""`
	Namespace []string       `short:"n" help:"Namespaces to search. What was said goes into the first." default:"default" env:"TRISKELE_NAMESPACE"`
	Store     storeFlags     `embed:""`

	process atomic.Pointer[telemetry.Process] // nil until the memory service is asked
}

// wish is a switch that no value breaks. One that is not understood is a no: else what its user wants kept private would be stored.
type wish bool

func (w *wish) Decode(ctx *kong.DecodeContext) error {
	text := ""
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		text = strings.ToLower(strings.TrimSpace(fmt.Sprint(ctx.Scan.Pop().Value)))
	}
	*w = wish(slices.Contains([]string{"", "yes", "true", "1", "on"}, text))
	return nil
}

func (*wish) IsBool() bool { return true }

func (c *hookCmd) Validate() error {
	switch {
	case c.within() <= 0:
		return errors.New("--within must be more than 0")
	case c.MaxTokens < 1:
		return errors.New("--max-tokens must be 1 or more")
	case !(c.MinScore >= 0 && c.MinScore <= 1):
		return errors.New("--min-score must be from 0 to 1")
	}
	return nil
}

const (
	// soon is how long a gateway is waited for.
	soon = 300 * time.Millisecond
	// opening is how long it may take without one. Of a prompt among long memories, half of it goes into opening the database and the
	// reranker: what is said in less time is chosen without it.
	opening = time.Second
	// leaving is the divisor for the reserved share of the hook's time. No deadline covers the start and exit of the process.
	leaving = 10
	// storing bounds the process that the hook leaves behind.
	storing = time.Minute
	// settling is how long that process waits before it reads the transcript. Agents may write the last of it after the event.
	settling = time.Second
)

func (c *hookCmd) within() time.Duration {
	switch {
	case c.Within != nil:
		return *c.Within
	case c.Store.Address != "":
		return soon
	}
	return opening
}

// Run never fails: agents treat a failed hook as a veto on the prompt.
func (c *hookCmd) Run(ctx context.Context, env *Env) error {
	signal.Ignore(syscall.SIGPIPE) // an agent that does not read is no failure
	config := hook.Config{
		Namespaces: c.Namespace, MaxTokens: c.MaxTokens, MinScore: c.MinScore, Sensitive: c.Sensitive, Text: c.Format == "text",
		Begin: func(ctx context.Context, s hook.Session) ([]*triskelev1.Hit, error) {
			conn, err := c.connect(ctx, env)
			if err != nil {
				return nil, err
			}
			return capture.Recap(ctx, triskelev1.NewMemoryServiceClient(conn), c.Namespace, s.Folder, env.Now())
		},
		Knows: func(s hook.Session) hook.Knowledge { return knowledge(env, s) },
		Gives: func(s hook.Session, given []string) {
			_ = note(env, s, os.O_APPEND, given)
		},
		Forgets: func(s hook.Session) {
			tidy(env)
			_ = note(env, s, os.O_TRUNC|os.O_CREATE, nil)
		},
	}
	var kind hook.Kind
	config.Ended = func(s hook.Session, of hook.Kind, err error) {
		if !c.Capture && s.ID != "" {
			c.keepPrivate(env, s, of)
		}
		if kind = of; errors.Is(err, hook.ErrService) && !c.Detached {
			c.trouble(env, s, err)
		}
	}
	most := c.within()
	within := most - most/leaving
	switch {
	case c.Detached:
		within = storing
		config.Said = func(s hook.Session, ended bool) error { return c.store(ctx, env, s, ended) }
	case bool(c.Capture):
		config.Said = func(s hook.Session, ended bool) error { return c.detach(env, s, ended) }
	}
	ctx, cancel := context.WithDeadline(ctx, env.Started.Add(within))
	defer cancel()
	out, err := hook.Answer(ctx, env.In, func(ctx context.Context) (hook.Recaller, error) {
		conn, err := c.connect(ctx, env)
		return triskelev1.NewRecallServiceClient(conn), err
	}, config)
	if err != nil && c.Why {
		_, _ = fmt.Fprintln(env.Err, "nothing printed:", render.Plain(err.Error()))
	}
	_, _ = env.Out.Write(out)
	if process := c.process.Load(); process != nil {
		count(process, kind, hook.Outcome(err))
		flushing, cancel := context.WithDeadline(context.WithoutCancel(ctx), env.Started.Add(max(within, most)))
		defer cancel()
		_ = process.Shutdown(flushing)
	}
	return nil
}

// count adds an event to the metric of those for which the memory service was asked.
func count(process *telemetry.Process, kind hook.Kind, outcome string) {
	events := meter(process, "triskele.hook.events", "Events of agents for which the memory service was asked, by kind and outcome.")
	events.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", string(kind)), attribute.String("outcome", outcome)))
}

func meter(process *telemetry.Process, name, description string) metric.Int64Counter {
	return telemetry.Must(process.Service("triskele").MeterProvider.Meter(telemetry.ScopeName).Int64Counter(name, metric.WithDescription(description)))
}

// connect connects until the process exits. It skips an orderly shutdown: nothing is written.
func (c *hookCmd) connect(ctx context.Context, env *Env) (grpc.ClientConnInterface, error) {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return nil, err
	}
	c.process.Store(process)
	conn, stop, err := c.Store.open(ctx, env, process, true, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("%w cannot be asked: %w", hook.ErrService, err)
	}
	context.AfterFunc(ctx, func() { _ = stop() })
	return conn, nil
}

// detach leaves a process behind that stores what was said. The agent waits for neither the gateway nor the database.
func (c *hookCmd) detach(env *Env, s hook.Session, ended bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	name := "Stop"
	if ended {
		name = "SessionEnd"
	}
	event, err := json.Marshal(struct {
		hook.Session
		Name string `json:"hook_event_name"`
	}{s, name})
	if err != nil {
		return err
	}
	command := exec.Command(self, append(slices.Clone(env.args), "--detached")...)
	in, err := command.StdinPipe()
	if err != nil {
		return err
	}
	apart(command)
	if err := command.Start(); err != nil {
		return err
	}
	_, err = in.Write(event) // less than a pipe holds
	return errors.Join(err, in.Close(), command.Process.Release())
}

func (c *hookCmd) store(ctx context.Context, env *Env, s hook.Session, ended bool) error {
	ctx, cancel := context.WithTimeout(ctx, storing)
	defer cancel()
	if env.private(s.ID) {
		return nil
	}
	if !ended { // else all is written
		select {
		case <-time.After(settling):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	c.process.Store(process)
	path := s.Transcript
	if _, err := os.Stat(path); err != nil { // some versions of Claude Code name a worktree's file, and write that of the project
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), "*", filepath.Base(path))); len(found) > 0 {
			path = found[0]
		}
	}
	folder, err := env.home().State("triskele")
	if err != nil {
		return err
	}
	session := capture.Session{
		Path: path, Namespace: c.Namespace[0], Folder: s.Folder, Now: env.Now(), Private: env.private,
		State: filepath.Join(folder, "capture"), // what was forgotten does not come back
	}
	report, err := captured(ctx, env, process, c.Store, session)
	if err == nil { // else it is stored later
		meter(process, "triskele.hook.secrets", "Secrets that were replaced in what was said.").Add(ctx, int64(report.Redacted))
	}
	return err
}

// keepPrivate marks a session as private. If it cannot, no file can tell that it has said so: it does at the beginning alone.
func (c *hookCmd) keepPrivate(env *Env, s hook.Session, kind hook.Kind) {
	if env.private(s.ID) {
		return
	}
	file, err := sessionFile(env, s, private)
	if err == nil {
		err = os.WriteFile(file, nil, 0o600)
	}
	if err != nil && (kind == hook.Begins || c.Why) {
		_, _ = fmt.Fprintln(env.Err, "triskele: this session may be captured if it goes on without TRISKELE_CAPTURE=no:", strings.TrimSpace(render.Plain(err.Error())))
	}
}

// trouble says once in a session, on standard error, why there are no memories.
func (c *hookCmd) trouble(env *Env, s hook.Session, err error) {
	file, unknown := sessionFile(env, s, "")
	if unknown != nil || s.ID == "" || c.Why {
		return
	}
	mark, exists := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if exists != nil {
		return
	}
	_ = mark.Close()
	_, _ = fmt.Fprintln(env.Err, "triskele: no memories in this session for now:", strings.TrimSpace(render.Plain(err.Error())))
}

// private is the ending of the file of a session that was not to be captured once. It is not captured later, when its transcript is that
// of a session that goes on, and not imported. The file stays, as the transcript may.
const private = ".private"

// private reports whether a session was not to be captured. A mark that cannot be read counts, too.
func (e *Env) private(session string) bool {
	file, err := sessionPath(e, hook.Session{ID: session}, private)
	if err != nil || session == "" {
		return false
	}
	_, err = os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// still is how long an agent is taken to have what it was given. It may lose that unseen, as when a user takes a prompt back.
const still = 30 * time.Minute

// note adds to the file of what a session's agent has a line with the time and what it is given. The first line has the time when the session
// began, or its agent forgot. Without it there is no file: such an agent does not tell when it forgets.
func note(env *Env, s hook.Session, mode int, given []string) error {
	file, err := sessionFile(env, s, ".known")
	if err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_WRONLY|mode, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to, env.Now().Format(time.RFC3339Nano), strings.Join(given, " "))
	return errors.Join(err, to.Close())
}

func knowledge(env *Env, s hook.Session) (known hook.Knowledge) {
	file, err := sessionFile(env, s, ".known")
	if err != nil {
		return known
	}
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, words[0])
		switch {
		case err != nil:
		case known.Since.IsZero():
			known.Since = at
		case env.Now().Sub(at) < still:
			known.Given = append(known.Given, words[1:]...)
		}
	}
	return known
}

// tidy removes the files of sessions that nobody has touched for a month. That a session was private stays known.
func tidy(env *Env) {
	file, err := sessionFile(env, hook.Session{}, "")
	if err != nil {
		return
	}
	files, _ := os.ReadDir(filepath.Dir(file))
	for _, f := range files {
		if strings.HasSuffix(f.Name(), private) {
			continue
		}
		if info, err := f.Info(); err == nil && env.Now().Sub(info.ModTime()) > 30*24*time.Hour {
			_ = os.Remove(filepath.Join(filepath.Dir(file), f.Name()))
		}
	}
}

// sessionFile returns the path of a file about a session, in a folder that exists.
func sessionFile(env *Env, s hook.Session, ending string) (string, error) {
	file, err := sessionPath(env, s, ending)
	if err != nil {
		return "", err
	}
	return file, os.MkdirAll(filepath.Dir(file), 0o700)
}

// sessionPath does so in a folder that may not exist.
func sessionPath(env *Env, s hook.Session, ending string) (string, error) {
	folder, err := env.home().State("triskele")
	return filepath.Join(folder, "hook", fmt.Sprintf("%x%s", sha256.Sum256([]byte(s.ID)), ending)), err
}
