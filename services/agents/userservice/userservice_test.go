package userservice_test

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/agents/userservice"
)

func TestMain(m *testing.M) {
	userservice.Hasten()
	os.Exit(m.Run())
}

// system puts programs of these names first in the PATH. Each writes down its arguments, and what it prints follows from answers.
func system(t *testing.T, answers map[string]string) (calls func() string) {
	t.Helper()
	folder := t.TempDir()
	record := filepath.Join(folder, "calls")
	for name, answer := range answers {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> " + record + "\n" + answer + "\n"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(record); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func service(t *testing.T, goos string) userservice.Service {
	home := t.TempDir()
	return userservice.Service{GOOS: goos, Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
		Line: []string{"/opt/my tools/triskele", "up", "--sqlite", "/data/50% & more.db"}}
}

func TestSystemd(t *testing.T) {
	calls := system(t, map[string]string{"systemctl": "echo active"})
	s := service(t, "linux")
	if installed, running, err := s.Status(t.Context()); installed || running || err != nil {
		t.Errorf("before: %t, %t, %v", installed, running, err)
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "systemctl --user daemon-reload\nsystemctl --user enable triskele\nsystemctl --user restart triskele\nsystemctl --user is-active triskele\n"
	if got := calls(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	path, err := s.Path()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `ExecStart="/opt/my tools/triskele" "up" "--sqlite" "/data/50%% & more.db"`) {
		t.Errorf("got %s, %v", text, err)
	}
	if installed, running, err := s.Status(t.Context()); !installed || !running || err != nil {
		t.Errorf("installed: %t, %t, %v", installed, running, err)
	}
	calls()
	if was, err := s.Uninstall(t.Context()); !was || err != nil {
		t.Fatal(was, err)
	}
	want = "systemctl --user disable --now triskele\nsystemctl --user daemon-reload\n"
	if got := calls(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
	if was, err := s.Uninstall(t.Context()); was || err != nil {
		t.Errorf("again: %t, %v", was, err)
	}
}

// A service keeps its data where programs of the user's shell do.
func TestDataFolder(t *testing.T) {
	s := service(t, "linux")
	if strings.Contains(s.Text(), "XDG_DATA_HOME") {
		t.Errorf("the shell names no folder: got %s", s.Text())
	}
	s.Getenv = func(name string) string { return map[string]string{"XDG_DATA_HOME": `/my data/50% "x"`}[name] }
	if want := `[Service]` + "\n" + `Environment="XDG_DATA_HOME=/my data/50%% \"x\""` + "\nExecStart="; !strings.Contains(s.Text(), want) {
		t.Errorf("got %s, want %s", s.Text(), want)
	}
}

func TestLaunchd(t *testing.T) {
	calls := system(t, map[string]string{"launchctl": "echo 'state = running'"})
	s := service(t, "darwin")
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := calls(); !strings.Contains(got, "launchctl bootstrap gui/") {
		t.Errorf("got %s", got)
	}
	var words []string
	decoder := xml.NewDecoder(strings.NewReader(s.Text()))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "string" {
			var word string
			if err := decoder.DecodeElement(&word, &start); err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
		}
	}
	if want := append([]string{"io.github.triskele"}, s.Line...); strings.Join(words, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", words, want)
	}
	if installed, running, err := s.Status(t.Context()); !installed || !running || err != nil {
		t.Errorf("installed: %t, %t, %v", installed, running, err)
	}
	if was, err := s.Uninstall(t.Context()); !was || err != nil {
		t.Fatal(was, err)
	}
}

func TestFailures(t *testing.T) {
	s := service(t, "linux")
	path, err := s.Path()
	if err != nil {
		t.Fatal(err)
	}
	installed := func() bool { _, err := os.Stat(path); return err == nil }
	const noBus = "echo 'Failed to connect to bus' >&2; exit 1"
	system(t, map[string]string{"systemctl": noBus})
	err = s.Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "systemctl --user daemon-reload: Failed to connect to bus. Log in as this user") || installed() {
		t.Errorf("got %v and a file: %t; want no bus, what to do, and no file", err, installed())
	}
	system(t, map[string]string{"systemctl": "echo activating"}) // as it says of a service that it starts again and again
	if err := s.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "ends as soon as it is started: try /opt/my tools/triskele up") || installed() {
		t.Errorf("a service that ends: got %v and a file: %t; want what to try, and no file", err, installed())
	}
	system(t, map[string]string{"systemctl": "echo active"})
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.Text()
	s.Line = append(s.Line, "--listen=127.0.0.1:1")
	calls := system(t, map[string]string{"systemctl": "echo activating"})
	if err := s.Install(t.Context()); err == nil || !strings.HasSuffix(calls(), "is-active triskele\nsystemctl --user daemon-reload\nsystemctl --user enable triskele\nsystemctl --user restart triskele\n") {
		t.Errorf("got %v; want an error, and the service of before started again", err)
	}
	system(t, map[string]string{"systemctl": noBus})
	if err := s.Install(t.Context()); err == nil {
		t.Error("installed without a bus")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != before {
		t.Errorf("the file is %q, %v; want that of the service before", text, err)
	}
	if was, err := s.Uninstall(t.Context()); err == nil || !was || !installed() {
		t.Errorf("uninstall: got %t, %v and a file: %t; want a service that stays, and why", was, err, installed())
	}
	if err := service(t, "plan9").Install(t.Context()); err != userservice.ErrPlatform {
		t.Errorf("got %v", err)
	}
}
