package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	home := t.TempDir()
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
	if err := json.Unmarshal([]byte(m.triskele(t, "connect", "--list", "--json")), &list); err != nil || len(list) != 7 {
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

func TestConnectWrongly(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"name an agent":                  {"connect"},
		"agents are called claude-code,": {"connect", "emacs"},
		"give no name":                   {"connect", "zed", "--list"},
		"choose one":                     {"connect", "zed", "--address=x:1", "--sqlite=y"},
	} {
		if got := run("", args...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%q: %+v, want %q", args, got, want)
		}
	}
}
