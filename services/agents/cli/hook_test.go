package cli_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/services/agents/cli"
)

// prompt is an event as Claude Code sends it.
func prompt(text string) string {
	return fmt.Sprintf(`{"session_id":"s","transcript_path":"/tmp/t.jsonl","cwd":"/tmp","hook_event_name":"UserPromptSubmit","prompt":%q}`, text)
}

// hooked runs the hook as a process that starts now.
func hooked(t *testing.T, event string, args ...string) (outcome, time.Duration) {
	var out, errs output
	began := time.Now()
	code := cli.Run(t.Context(), append([]string{"hook"}, args...), cli.Env{
		In: strings.NewReader(event), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now, Started: began,
	})
	return outcome{code, out.String(), errs.String()}, time.Since(began)
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return listener.Addr().String()
}

// A gateway that is up is quoted, and one that is slow or dead costs no more than the limit. How exactly that is kept is
// TestNeverLate's; here it is generous, since other programs may be at work.
func TestHookOverSockets(t *testing.T) {
	t.Parallel()
	up := serve(t)
	for i := range 20 {
		must(t, "", "remember", fmt.Sprintf("Crane %d is serviced in spring.", i), "--address="+up)
	}
	for name, x := range map[string]struct {
		address, within string
		prompts         int
	}{
		"up": {up, "60s", 40}, "slow": {silent(t), "100ms", 20}, "dead": {"127.0.0.1:1", "100ms", 20},
	} {
		var all sync.WaitGroup
		turn := make(chan struct{}, 8)
		for i := range x.prompts {
			all.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				got, took := hooked(t, prompt(fmt.Sprintf("when is crane %d serviced in spring", i%20)), "--address="+x.address, "--within="+x.within)
				if got.code != 0 || got.err != "" {
					t.Errorf("%s: %+v", name, got)
				}
				if name != "up" && (got.out != "" || took > 30*time.Second) {
					t.Errorf("%s: %q after %v", name, got.out, took)
				}
				if name == "up" && (!strings.Contains(got.out, `"hookEventName":"UserPromptSubmit"`) || !strings.Contains(got.out, "is serviced in spring.")) {
					t.Errorf("up: %q", got.out)
				}
			})
		}
		all.Wait()
	}
	got, _ := hooked(t, prompt("when is crane 3 serviced in spring"), "--address="+up, "--within=60s", "--namespace=nothing/yet", "--namespace=default")
	if !strings.Contains(got.out, "is serviced in spring.") {
		t.Errorf("beside a namespace without memories: %+v", got)
	}
}

// Half a second after its start, the hook has no time left for a gateway, but some to open a database, which is not there.
func TestHookOpensADatabaseForLonger(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"does not answer in time": {"--address=" + silent(t)}, "no database exists": {"--sqlite=" + filepath.Join(t.TempDir(), "none.db")},
		"the memory service does not answer in time": {"--sqlite=x", "--within=300ms"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out, errs output
			code := cli.Run(t.Context(), append([]string{"hook", "--why"}, args...), cli.Env{
				In: strings.NewReader(prompt("when is the crane serviced")), Out: &out, Err: &errs, Getenv: func(string) string { return "" },
				Now: time.Now, Started: time.Now().Add(-500 * time.Millisecond),
			})
			if code != 0 || out.String() != "" || !strings.Contains(errs.String(), want) {
				t.Errorf("%q: got %d, %q, %q; want %q", args, code, out.String(), errs.String(), want)
			}
		})
	}
}

// Whatever is wrong, the exit code is 0: agents take any other for a veto.
func TestHookNeverFails(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a wrong flag":       {"--no-such-flag"},
		"a wrong value":      {"--within=soon"},
		"no time":            {"--within=0s"},
		"two stores":         {"--postgres=x", "--sqlite=y"},
		"no database":        {"--sqlite=" + filepath.Join(t.TempDir(), "none.db")},
		"no embedder":        {"--embedder=none", "--sqlite=x"},
		"an unknown gateway": {"--address=no.such.host.invalid:7400"},
	} {
		got, _ := hooked(t, prompt("when is the crane serviced"), args...)
		if got.code != 0 || got.out != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got, _ := hooked(t, `{"prompt":"/clear"}`, "--why", "--sqlite=x", "--within=60s")
	if got.code != 0 || got.out != "" || got.err != "nothing printed: the prompt is a command to the agent\n" {
		t.Errorf("--why: %+v", got)
	}
}

// A hook that cannot ask at all says so, once in a session: here the database has got another model.
func TestHookSaysWhyItCannotAsk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database := "--sqlite=" + filepath.Join(folder, "x.db")
	must(t, "", "migrate", "up", database)
	must(t, "", "reembed", "--embedder=hashed", database)
	for n, event := range []string{prompt("when is the crane serviced"), prompt("when is the crane serviced"), `{"session_id":"other","cwd":"/tmp","hook_event_name":"SessionStart"}`} {
		var out, errs output
		code := cli.Run(t.Context(), []string{"hook", database, "--within=60s"}, cli.Env{
			In: strings.NewReader(event), Out: &out, Err: &errs, Getenv: func(name string) string { return map[string]string{"HOME": folder}[name] }, Now: time.Now, Started: time.Now(),
		})
		if said := strings.Contains(errs.String(), "no memories in this session for now: the memory service cannot be asked") && strings.Contains(errs.String(), "embedded with builtin/hashed"); code != 0 || out.String() != "" || said != (n != 1) {
			t.Errorf("event %d: got %d, %q, %q", n, code, out.String(), errs.String())
		}
	}
}

// Asking creates and changes nothing.
func TestHookLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	hooked(t, prompt("when is the crane serviced"), "--sqlite="+filepath.Join(folder, "none.db"), "--within=20s")
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A session begins with what was stored for its project, in a worktree of it too, however many newer memories of others there are.
func TestBriefingIsOfTheProject(t *testing.T) {
	t.Parallel()
	up, folder := serve(t), t.TempDir()
	project, worktree := filepath.Join(folder, "a"), filepath.Join(folder, "a-next")
	if err := errors.Join(os.MkdirAll(filepath.Join(project, ".git", "worktrees", "next"), 0o700), os.Mkdir(worktree, 0o700),
		os.WriteFile(filepath.Join(worktree, ".git"), []byte("gitdir: "+filepath.Join(project, ".git", "worktrees", "next")+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	store := func(n int, text, metadata string, age time.Duration) {
		for i := range n {
			fmt.Fprintf(&lines, `{"content":"%s %d is made of %x.","metadata":{%s},"createdAt":%q}`+"\n", text, i, i*i*i*7919, metadata, time.Now().Add(-age-time.Duration(i)*time.Second).UTC().Format(time.RFC3339))
		}
	}
	month := 30 * 24 * time.Hour
	store(10, "Anchor", fmt.Sprintf(`"project":%q`, project), month)
	store(40, "Bollard", `"project":"/elsewhere/b"`, 0)
	must(t, lines.String(), "import", "-", "--address="+up)
	begin := func(cwd string) string {
		t.Helper()
		got, _ := hooked(t, fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"SessionStart","source":"startup"}`, cwd), "--address="+up, "--within=60s", "--format=text")
		return got.out
	}
	for _, cwd := range []string{project, worktree} {
		out := begin(cwd)
		if n, first := strings.Count(out, "Anchor"), strings.Index(out, "Bollard"); n != 10 || first >= 0 && first < strings.LastIndex(out, "Anchor") {
			t.Errorf("in %s: got %d of 10 facts of the project, want all before others:\n%s", cwd, n, out)
		}
	}
	lines.Reset()
	store(400, "Vault note", "", 0)
	must(t, lines.String(), "import", "-", "--address="+up)
	if out := begin(project); strings.Count(out, "Anchor") != 10 {
		t.Errorf("after 400 notes: %s", out)
	}
}

// said writes a record of Claude Code's.
func said(t *testing.T, file io.Writer, id, role, text string) {
	t.Helper()
	if _, err := fmt.Fprintf(file, `{"type":%q,"uuid":%q,"sessionId":"s1","timestamp":%q,"message":{"content":%q}}`+"\n", role, id, clock().Format(time.RFC3339Nano), text); err != nil {
		t.Error(err)
	}
}

// captured runs the process that a hook leaves behind, and returns what is stored then.
func captured(t *testing.T, address, session, state string) string {
	t.Helper()
	code := cli.Run(t.Context(), []string{"hook", "--detached", "--address=" + address}, cli.Env{
		In:  strings.NewReader(`{"session_id":"s1","transcript_path":"` + session + `","hook_event_name":"Stop"}`),
		Out: io.Discard, Err: io.Discard, Now: clock, Started: time.Now(),
		Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state, "HOME": state}[name] },
	})
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	return must(t, "", "export", "--address="+address)
}

// Agents send the event before they have written all that was said. What an agent is about to do is no answer.
func TestCaptureWaitsForTheTranscript(t *testing.T) {
	t.Parallel()
	address, session := serve(t), filepath.Join(t.TempDir(), "s1.jsonl")
	file, err := os.Create(session)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	said(t, file, "1", "user", "When is the harbour crane serviced?")
	said(t, file, "2", "assistant", "I will look into the calendar of services first.")
	time.AfterFunc(100*time.Millisecond, func() { said(t, file, "3", "assistant", "The harbour crane is serviced in spring.") })
	stored := captured(t, address, session, t.TempDir())
	wantContains(t, "what was said", stored, "When is the harbour crane serviced?", "The harbour crane is serviced in spring.")
	if strings.Contains(stored, "I will look") {
		t.Errorf("stored %s", stored)
	}
}

// Claude Code in a worktree may name a file that would be the worktree's, and write that of the project.
func TestCaptureFindsTheTranscript(t *testing.T) {
	t.Parallel()
	projects := t.TempDir()
	session := filepath.Join(projects, "-work", "s1.jsonl")
	if err := os.Mkdir(filepath.Dir(session), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(session)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	said(t, file, "1", "user", "When is the harbour crane serviced?")
	wantContains(t, "what was said", captured(t, serve(t), filepath.Join(projects, "-work--claude-worktrees-crane", "s1.jsonl"), t.TempDir()), "When is the harbour crane serviced?")
}

// Where no file can be kept, nothing is captured, and a session that is to stay private says once that it may not.
func TestCaptureWithoutState(t *testing.T) {
	t.Parallel()
	state, session := t.TempDir(), filepath.Join(t.TempDir(), "s1.jsonl")
	if err := os.Symlink(filepath.Join(state, "gone", "folder"), filepath.Join(state, "triskele")); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(session)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	said(t, file, "1", "user", "When is the harbour crane serviced?")
	up := serve(t)
	for i, event := range []string{`"hook_event_name":"SessionStart"`, `"hook_event_name":"UserPromptSubmit","prompt":"when is the crane serviced?"`, `"hook_event_name":"Stop"`} {
		var errs output
		code := cli.Run(t.Context(), []string{"hook", "--address=" + up, "--within=60s", "--no-capture"}, cli.Env{
			In: strings.NewReader(`{"session_id":"s1","transcript_path":"` + session + `",` + event + `}`), Out: io.Discard, Err: &errs, Now: time.Now, Started: time.Now(),
			Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state, "HOME": state}[name] },
		})
		if warned := strings.HasPrefix(errs.String(), "triskele: this session may be captured"); code != 0 || warned != (i == 0) {
			t.Errorf("%s: got %d, %q", event, code, errs.String())
		}
	}
	if stored := captured(t, up, session, state); strings.Contains(stored, "crane") {
		t.Errorf("stored %s", stored)
	}
}

// What an agent was given comes again after half an hour, when it forgets, and if it does not tell when it does.
func TestGivenAgain(t *testing.T) {
	t.Parallel()
	folder, up := t.TempDir(), serve(t)
	must(t, "", "remember", "The harbour crane is serviced in spring.", "--address="+up)
	ask := func(session, event string, after time.Duration) string {
		t.Helper()
		var out, errs output
		code := cli.Run(t.Context(), []string{"hook", "--address=" + up, "--within=60s", "--no-capture"}, cli.Env{
			In:  strings.NewReader(`{"session_id":"` + session + `","cwd":"/tmp",` + event + `}`),
			Out: &out, Err: &errs, Getenv: func(name string) string { return map[string]string{"HOME": folder}[name] },
			Now: func() time.Time { return time.Now().Add(after) }, Started: time.Now(),
		})
		if code != 0 || errs.String() != "" {
			t.Errorf("%s: got %d, %q", event, code, errs.String())
		}
		return out.String()
	}
	begin, prompt := `"hook_event_name":"SessionStart","source":"startup"`, `"hook_event_name":"UserPromptSubmit","prompt":"when is the harbour crane serviced?"`
	ask("s", begin, 0)
	for _, x := range []struct {
		name, session, event string
		after                time.Duration
		given                bool
	}{
		{"at once", "s", prompt, time.Minute, false},
		{"after half an hour", "s", prompt, 31 * time.Minute, true},
		{"at once again", "s", prompt, 32 * time.Minute, false},
		{"compacting", "s", `"hook_event_name":"PreCompact"`, 33 * time.Minute, false},
		{"after compaction", "s", prompt, 34 * time.Minute, true},
		{"in a session whose beginning nobody told", "t", prompt, 0, true},
		{"and again", "t", prompt, time.Minute, true},
		{"and once more", "t", prompt, 2 * time.Minute, true},
	} {
		if out := ask(x.session, x.event, x.after); (out != "") != x.given {
			t.Errorf("%s: got %q", x.name, out)
		}
	}
	// That sessions were private is kept, unlike what they know: their transcripts may be imported at any time.
	for _, x := range []struct{ days, known, private int }{{0, 1, 2}, {60, 1, 3}, {91, 1, 4}} {
		if x.days > 0 {
			ask(fmt.Sprint("after ", x.days), begin, time.Duration(x.days)*24*time.Hour)
		}
		known, _ := filepath.Glob(filepath.Join(folder, ".local/state/triskele/hook/*.known"))
		private, _ := filepath.Glob(filepath.Join(folder, ".local/state/triskele/hook/*.private"))
		if len(known) != x.known || len(private) != x.private {
			t.Errorf("after %d days there are %v and %v, want %d and %d", x.days, known, private, x.known, x.private)
		}
	}
}
