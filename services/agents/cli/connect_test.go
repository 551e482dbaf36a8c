package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/connect"
)

// machine is a home folder with a program that is called triskele, and what runs it there.
type machine struct {
	home, program string
}

// newMachine makes one. The program is this test's, which runs command lines: see TestMain.
func newMachine(t *testing.T) machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "triskele-home-") // a process that the hook leaves behind may still write when the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	program := filepath.Join(home, "bin", "triskele")
	if err := os.Mkdir(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Link(self, program) != nil { // another file system
		from, err := os.Open(self)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = from.Close() }()
		to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return machine{home, program}
}

// command is a command on the machine.
func (m machine) command(t *testing.T, in string, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = strings.NewReader(in)
	command.Dir = m.home
	command.Env = []string{"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "TRISKELE_CONFIG=off"}
	return command
}

// triskele runs the program and returns what it prints. It must succeed.
func (m machine) triskele(t *testing.T, args ...string) string {
	t.Helper()
	command := m.command(t, "", m.program, args...)
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, errs.String())
	}
	return string(out)
}

func (m machine) read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.home, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConnectAndTry(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if out := m.triskele(t, "connect", "claude-code", "--dry-run"); !strings.Contains(out, "+      \"command\": \""+m.program+"\"") || !strings.HasSuffix(out, "Nothing was changed.\n") {
		t.Errorf("dry run: %s", out)
	}
	if _, err := os.Stat(filepath.Join(m.home, ".claude.json")); err == nil {
		t.Error("a dry run writes a file")
	}
	unlock, err := connect.Lock(t.Context(), connect.Home{GOOS: runtime.GOOS, Getenv: func(name string) string { return map[string]string{"HOME": m.home}[name] }})
	if err != nil {
		t.Fatal(err)
	}
	waiting := m.command(t, "", m.program, "connect", "claude-code")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = waiting.Process.Kill() })
	if err := waiting.Wait(); err == nil {
		t.Error("connected while another run has the lock")
	}
	unlock()
	if _, err := os.Stat(filepath.Join(m.home, ".claude.json")); err == nil {
		t.Error("a file was written while another run has the lock")
	}
	wantContains(t, "connect", m.triskele(t, "connect", "claude-code", "--namespace=work"), "Claude Code is connected", "+++ "+m.home+"/.claude/settings.json")
	wantContains(t, "a second run", m.triskele(t, "connect", "claude-code", "--namespace=work"), "is connected already")
	if err := os.MkdirAll(filepath.Join(m.home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.home, ".cursor", "mcp.json"), []byte(`{"mcpServers": {"triskele": {"command": "/no/such/program"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Client                         string
		Found, Connected, Hooks, Works bool
		Problem                        string
	}
	if err := json.Unmarshal([]byte(m.triskele(t, "connect", "--list", "--json")), &list); err != nil || len(list) != len(connect.Clients) {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, one := range list {
		switch one.Client {
		case "claude-code":
			if !one.Found || !one.Connected || !one.Hooks || !one.Works || one.Problem != "" {
				t.Errorf("got %+v, want one that works", one)
			}
		case "cursor":
			if !one.Found || !one.Connected || one.Hooks || one.Works || !strings.Contains(one.Problem, "no such file") {
				t.Errorf("got %+v, want one that does not work", one)
			}
		default:
			if one.Found || one.Connected || one.Works {
				t.Errorf("got %+v, want one that is not there", one)
			}
		}
	}
	wantContains(t, "undo", m.triskele(t, "connect", "claude-code", "--undo"), "no longer connected")
	if _, err := os.Stat(filepath.Join(m.home, ".claude.json")); err == nil {
		t.Error("undo leaves a file of its own behind")
	}
}

// What connect has done for any client, undo takes back.
func TestConnectAndUndoAll(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mentions := func() (files []string) {
		_ = filepath.WalkDir(m.home, func(path string, entry os.DirEntry, _ error) error {
			if text, err := os.ReadFile(path); err == nil && path != m.program && !strings.Contains(path, "/state/triskele/") && bytes.Contains(text, []byte(m.program)) {
				files = append(files, path)
			}
			return nil
		})
		return files
	}
	for _, client := range connect.Clients {
		wantContains(t, client.Name, m.triskele(t, "connect", client.Name), client.Title+" is connected")
		if len(mentions()) == 0 {
			t.Errorf("%s: connect has written no file", client.Name)
		}
		wantContains(t, "undo "+client.Name, m.triskele(t, "connect", client.Name, "--undo"), "no longer connected")
		if files := mentions(); len(files) > 0 {
			t.Errorf("%s: undo leaves %q", client.Name, files)
		}
	}
}

func TestConnectWrongly(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"name an agent":                  {"connect"},
		"agents are called claude-code,": {"connect", "emacs"},
		"give no name":                   {"connect", "zed", "--list"},
		"choose one":                     {"connect", "zed", "--address=x:1", "--sqlite=y"},
		`"MyProject" is no namespace`:    {"connect", "zed", "-n", "MyProject"},
		"must be HOST:PORT":              {"connect", "zed", "--address=not an address"},
		"there is no folder /no/such":    {"connect", "zed", "--sqlite=/no/such/a.db"},
	} {
		if got := run("", args...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%q: %+v, want %q", args, got, want)
		}
	}
}

// hooks returns the command lines of a client's hooks, by event.
func (m machine) hooks(t *testing.T, path string) map[string]string {
	t.Helper()
	var settings struct {
		Hooks map[string][]struct{ Hooks []struct{ Command string } }
	}
	if err := json.Unmarshal([]byte(m.read(t, path)), &settings); err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for event, groups := range settings.Hooks {
		lines[event] = groups[0].Hooks[0].Command
	}
	return lines
}

// event runs a hook as the client does, and returns what it prints.
func (m machine) event(t *testing.T, line, event string) (out, errs string, took time.Duration) {
	t.Helper()
	command := m.command(t, event, "sh", "-c", line)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	began := time.Now()
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v: %s", event, err, stderr.String())
	}
	return stdout.String(), stderr.String(), time.Since(began)
}

// A session of Claude Code, by its own files and events: what was said in it is known in the next one, without a gateway and without
// anybody having asked for it. Secrets are not.
func TestSessionIsRemembered(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.triskele(t, "connect", "claude-code")
	hooks := m.hooks(t, ".claude/settings.json")
	project := filepath.Join(m.home, "harbour")
	key := "gh" + "p_" + strings.Repeat("aB3dE5gH7j", 4)
	var lines string
	for i, text := range []string{"We service the harbour crane in spring. My token is " + key + ", keep that.", "Noted: the harbour crane is serviced in spring."} {
		record, err := json.Marshal(map[string]any{
			"type": []string{"user", "assistant"}[i], "uuid": string(rune('a' + i)), "sessionId": "s1", "cwd": project, "timestamp": time.Now().UTC(),
			"message": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		lines += string(record) + "\n"
	}
	session := filepath.Join(m.home, "s1.jsonl")
	if err := os.WriteFile(session, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	event := func(name, more string) string {
		return `{"session_id":"s1","transcript_path":"` + session + `","cwd":"` + project + `","hook_event_name":"` + name + `"` + more + `}`
	}
	out, _, took := m.event(t, hooks["Stop"]+" --within 30s", event("Stop", `,"stop_hook_active":false`))
	if out != "" {
		t.Errorf("the end of an answer prints %q", out)
	}
	t.Logf("the event took %v", took)

	// The process that the hook has left behind keeps a position when it is done.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if kept, _ := filepath.Glob(filepath.Join(m.home, ".local/state/triskele/capture/*.json")); len(kept) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was kept")
		}
	}
	begin := hooks["SessionStart"] + " --within 30s"
	out, _, _ = m.event(t, begin, event("SessionStart", `,"source":"startup"`))
	wantContains(t, "the briefing", out, `"hookEventName":"SessionStart"`, "We service the harbour crane in spring.", "[redacted: GitHub token]")
	prompt := event("UserPromptSubmit", `,"prompt":"when is the harbour crane serviced?"`)
	ask := hooks["UserPromptSubmit"] + " --within 30s --why"
	out, _, _ = m.event(t, ask, strings.Replace(prompt, "s1", "s2", 1))
	wantContains(t, "the prompt of another session", out, `"hookEventName":"UserPromptSubmit"`, "the harbour crane is serviced in spring")
	if out, errs, _ := m.event(t, ask, prompt); out != "" || errs != "nothing printed: what was found was said in this session, or given to it before\n" {
		t.Errorf("the session itself, which has it before it, gets %q, %q", out, errs)
	}
	m.event(t, hooks["PreCompact"]+" --within 30s", event("PreCompact", `,"trigger":"auto"`))
	out, _, _ = m.event(t, ask, prompt)
	wantContains(t, "the prompt after a compaction", out, "the harbour crane is serviced in spring")
	if out, errs, _ := m.event(t, ask, prompt); out != "" || !strings.Contains(errs, "given to it before") {
		t.Errorf("the same prompt again gets %q, %q", out, errs)
	}
	if out, _, _ := m.event(t, begin, event("SessionStart", `,"source":"resume"`)); out != "" {
		t.Errorf("a resumed session gets %s", out)
	}
	if out, _, _ := m.event(t, ask, prompt); out != "" {
		t.Errorf("after it was resumed, the same prompt gets %q", out)
	}
	out, _, _ = m.event(t, begin, event("SessionStart", `,"source":"clear"`))
	wantContains(t, "the briefing of a session that was cleared", out, "We service the harbour crane in spring.")
	if dry := m.triskele(t, "capture", session, "--dry-run"); !strings.HasSuffix(dry, "2 kept, 0 known, 0 short, 0 ignored; 1 secrets replaced\n") {
		t.Errorf("dry run: %s", dry)
	}
	var shown struct{ Memories []struct{ Content string } }
	if err := json.Unmarshal([]byte(m.triskele(t, "capture", session, "--dry-run", "--json")), &shown); err != nil || len(shown.Memories) != 2 {
		t.Errorf("dry run as JSON: %+v, %v, want what would be kept", shown, err)
	}
	if again := m.triskele(t, "capture", session); !strings.HasPrefix(again, "0 kept, 2 known") {
		t.Errorf("again: %s", again)
	}
	if other := m.triskele(t, "capture", session, "--sqlite", filepath.Join(m.home, "other.db")); !strings.HasPrefix(other, "2 kept") {
		t.Errorf("into another database: %s", other)
	}
	_ = filepath.WalkDir(filepath.Join(m.home, ".local"), func(path string, entry os.DirEntry, _ error) error {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(key)) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	})

	if _, errs, _ := m.event(t, hooks["UserPromptSubmit"]+" --within 30s --sqlite= --address 127.0.0.1:1", event("UserPromptSubmit", `,"prompt":"crane?"`)); !strings.Contains(errs, "no memories in this session for now: the memory service") {
		t.Errorf("without a gateway: %q", errs)
	}
	if _, errs, _ := m.event(t, hooks["UserPromptSubmit"]+" --within 30s --sqlite= --address 127.0.0.1:1", event("UserPromptSubmit", `,"prompt":"crane?"`)); errs != "" {
		t.Errorf("said twice: %q", errs)
	}
}

func TestCaptureCanBeOff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	event := `{"session_id":"s1","transcript_path":"` + m.home + `/none.jsonl","hook_event_name":"Stop"}`
	for _, line := range []string{"TRISKELE_CAPTURE=no " + m.program + " hook --why --within 30s", m.program + " hook --no-capture --why --within 30s"} {
		if out, errs, _ := m.event(t, line, event); out != "" || errs != "nothing printed: there is nothing to do for this event\n" {
			t.Errorf("%s: got %q, %q", line, out, errs)
		}
	}
}

// Whatever the variable says, memories are printed. What is not understood keeps the session private.
func TestCaptureIsReadAsText(t *testing.T) {
	t.Parallel()
	m, address := newMachine(t), serve(t)
	must(t, "", "remember", "The harbour crane is serviced in spring.", "--address="+address)
	settings := filepath.Join(m.home, "off.yaml")
	if err := os.WriteFile(settings, []byte("hook: {capture: off}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := m.program + " hook --within 30s --address " + address
	for i, x := range []struct {
		line    string
		private bool
	}{
		{hook, false}, {"TRISKELE_CAPTURE= " + hook, false}, {"TRISKELE_CAPTURE=yes " + hook, false}, {"TRISKELE_CAPTURE=True " + hook, false},
		{"TRISKELE_CAPTURE=1 " + hook, false}, {"TRISKELE_CAPTURE=ON " + hook, false}, {"TRISKELE_CAPTURE=no " + hook + " --capture", false},
		{"TRISKELE_CAPTURE=off " + hook, true}, {"TRISKELE_CAPTURE=No " + hook, true}, {"TRISKELE_CAPTURE=none " + hook, true}, {"TRISKELE_CAPTURE=0 " + hook, true},
		{"TRISKELE_CAPTURE=nope " + hook, true}, {hook + " --no-capture", true}, {hook + " --capture=off", true}, {"TRISKELE_CONFIG=" + settings + " " + hook, true},
	} {
		marks := func() int {
			found, _ := filepath.Glob(filepath.Join(m.home, ".local/state/triskele/hook/*.private"))
			return len(found)
		}
		before, session := marks(), fmt.Sprint("s", i)
		out, errs, _ := m.event(t, x.line, `{"session_id":"`+session+`","hook_event_name":"UserPromptSubmit","prompt":"when is the harbour crane serviced?"}`)
		if !strings.Contains(out, "The harbour crane is serviced in spring.") || errs != "" {
			t.Errorf("%s: a prompt gets %q, %q", x.line, out, errs)
		}
		if out, _, _ := m.event(t, x.line, `{"session_id":"`+session+`","hook_event_name":"SessionStart","source":"startup"}`); !strings.Contains(out, "The harbour crane is serviced in spring.") {
			t.Errorf("%s: a session begins with %q", x.line, out)
		}
		if private := marks() > before; private != x.private {
			t.Errorf("%s: private is %v, want %v", x.line, private, x.private)
		}
	}
}

// A session that was not captured goes on later without the variable, with all that was said in its transcript. Another one copies of it.
func TestCaptureStaysOff(t *testing.T) {
	t.Parallel()
	m, address := newMachine(t), serve(t)
	for _, session := range []string{"s1", "s2"} {
		transcript := filepath.Join(m.home, session+".jsonl")
		line := `{"type":"user","uuid":"1","sessionId":"` + session + `","message":{"content":"The harbour crane of ` + session + ` is serviced in spring."}}` + "\n"
		if session == "s2" {
			line += `{"type":"user","uuid":"2","sessionId":"s2","forkedFrom":{"sessionId":"s1","messageUuid":"2"},"message":{"content":"The salary of Ada is four thousand."}}` + "\n"
		}
		if err := os.WriteFile(transcript, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		event := `{"session_id":"` + session + `","transcript_path":"` + transcript + `","hook_event_name":"SessionEnd"}`
		if session == "s1" { // it was cut off, so that only a prompt tells
			m.event(t, "TRISKELE_CAPTURE=no "+m.program+" hook --within 30s", `{"session_id":"s1","hook_event_name":"UserPromptSubmit","prompt":"when is the crane serviced?"}`)
		}
		m.event(t, m.program+" hook --detached --address "+address, event)
	}
	if stored := must(t, "", "export", "--address="+address); strings.Contains(stored, "crane of s1") || strings.Contains(stored, "salary") || !strings.Contains(stored, "crane of s2") {
		t.Errorf("stored %s, want s2 alone", stored)
	}
}

// Neither the capture command nor an import stores what was said in a session that was not to be captured. A fork has a copy of that.
func TestPrivateSessionsStayPrivate(t *testing.T) {
	t.Parallel()
	m, address := newMachine(t), "--address="+serve(t)
	projects := filepath.Join(m.home, ".claude", "projects", "w")
	if err := os.MkdirAll(projects, 0o700); err != nil {
		t.Fatal(err)
	}
	const copied = `,"forkedFrom":{"sessionId":"s1","messageUuid":"1"}`
	for _, x := range []struct{ session, id, text, more string }{
		{"s1", "1", "The salary of Ada is four thousand.", ""}, {"s1", "2", "thanks", ""}, {"s2", "1", "The harbour crane is serviced in spring.", ""},
		{"s3", "1", "The salary of Ada is four thousand.", copied}, {"s3", "2", "The harbour pier is painted in autumn.", ""},
	} {
		file, err := os.OpenFile(filepath.Join(projects, x.session+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString(`{"type":"user","uuid":"` + x.id + `","sessionId":"` + x.session + `","message":{"content":"` + x.text + `"}` + x.more + "}\n")
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	m.event(t, "TRISKELE_CAPTURE=no "+m.program+" hook --within 30s", `{"session_id":"s1","hook_event_name":"UserPromptSubmit","prompt":"what does Ada earn?"}`)
	for _, more := range []string{"--dry-run", address} {
		if out := m.triskele(t, "capture", filepath.Join(projects, "s1.jsonl"), more); out != "0 kept, 0 known, 0 short, 2 ignored; 0 secrets replaced\n" {
			t.Errorf("capture %s: %s", more, out)
		}
	}
	if out := m.triskele(t, "import", "--from=claude-code", address); out != "stored 2, unchanged 0\n" {
		t.Errorf("import: %s", out)
	}
	if got := must(t, "", "export", address); strings.Contains(got, "salary") || !strings.Contains(got, "crane") || !strings.Contains(got, "pier") {
		t.Errorf("stored %s, want what was not private", got)
	}
}
