// Package userservice keeps a program running for the user who is logged in: with systemd on Linux, with launchd on macOS. It needs
// no rights beyond the user's own.
package userservice

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/triskele/triskele/services/agents/internal/home"
)

// Service is a program to keep running.
type Service struct {
	GOOS   string
	Getenv func(string) string
	Line   []string // the program's absolute path and its arguments
}

const (
	unit  = "triskele"
	label = "io.github.triskele"
)

// ErrPlatform says that a platform has no user services that this package knows.
var ErrPlatform = errors.New("services are for Linux with systemd, and for macOS: start `triskele up` with what your system has for that")

// Path returns the path of the service's file.
func (s Service) Path() (string, error) {
	user := home.Home{GOOS: s.GOOS, Getenv: s.Getenv}
	switch s.GOOS {
	case "linux":
		folder, err := user.Settings("systemd")
		return filepath.Join(folder, "user", unit+".service"), err
	case "darwin":
		folder, err := user.Under("", "Library", "LaunchAgents")
		return filepath.Join(folder, label+".plist"), err
	}
	return "", ErrPlatform
}

//go:embed *.tmpl
var texts embed.FS

// Text returns the contents of the service's file.
func (s Service) Text() string {
	t := template.Must(template.New(s.GOOS).Funcs(template.FuncMap{
		"setting": func(text string) string { return strings.ReplaceAll(strconv.Quote(text), "%", "%%") },
		// systemd expands % and $ in command lines.
		"word": func(word string) string {
			return strings.NewReplacer("%", "%%", "$", "$$").Replace(strconv.Quote(word))
		},
		"xml": func(word string) (string, error) {
			var b strings.Builder
			err := xml.EscapeText(&b, []byte(word))
			return b.String(), err
		},
	}).ParseFS(texts, "*.tmpl"))
	form := "systemd.tmpl"
	if s.GOOS == "darwin" {
		form = "launchd.tmpl"
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, form, struct {
		Label string
		Line  []string
		Data  string // folder of data that the user's shell names, and the service has to know
	}{label, s.Line, s.Getenv("XDG_DATA_HOME")}); err != nil {
		panic("a service's template: " + err.Error()) // it does not fit this package
	}
	return b.String()
}

// settle is how long a service has to run before it counts as started: the system takes one as started that fails at once.
var settle = time.Second

// Install writes the service's file and starts the service, now and at each login. A service that is installed is restarted. If the new
// one cannot be started, or does not go on running, nothing of it stays, and the one before it goes on.
func (s Service) Install(ctx context.Context) error {
	path, err := s.Path()
	if err != nil {
		return err
	}
	old, unread := os.ReadFile(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(s.Text()), 0o600); err != nil {
		return err
	}
	if err = s.start(ctx, path); err == nil {
		time.Sleep(settle)
		if _, running, failed := s.Status(ctx); failed != nil || !running {
			err = cmp.Or(failed, fmt.Errorf("the service ends as soon as it is started: try %s", strings.Join(s.Line, " ")))
		}
	}
	if err == nil {
		return nil
	}
	if unread != nil {
		_ = s.stop(ctx)
		_ = os.Remove(path)
	} else if os.WriteFile(path, old, 0o600) == nil {
		_ = s.start(ctx, path)
	}
	return err
}

func (s Service) start(ctx context.Context, path string) error {
	if s.GOOS == "darwin" {
		_ = s.stop(ctx) // fails if it does not run
		_, err := run(ctx, "launchctl", "bootstrap", s.domain(), path)
		return err
	}
	if _, err := run(ctx, "systemctl", "--user", "daemon-reload"); err != nil {
		return fmt.Errorf("%w. Log in as this user, not by su or sudo. Without systemd, have your system start `triskele up`", err)
	}
	for _, args := range [][]string{{"enable", unit}, {"restart", unit}} {
		if _, err := run(ctx, "systemctl", append([]string{"--user"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

func (s Service) stop(ctx context.Context) (err error) {
	if s.GOOS == "darwin" {
		_, err = run(ctx, "launchctl", "bootout", s.domain()+"/"+label)
	} else {
		_, err = run(ctx, "systemctl", "--user", "disable", "--now", unit)
	}
	return err
}

// Status says whether the service is installed, and whether it runs.
func (s Service) Status(ctx context.Context) (installed, running bool, err error) {
	path, err := s.Path()
	if err != nil {
		return false, false, err
	}
	if _, err := os.Stat(path); err != nil {
		return false, false, nil
	}
	if s.GOOS == "darwin" {
		out, err := run(ctx, "launchctl", "print", s.domain()+"/"+label)
		return true, err == nil && strings.Contains(out, "state = running"), nil
	}
	out, _ := run(ctx, "systemctl", "--user", "is-active", unit) // its exit code says the same
	return true, strings.TrimSpace(out) == "active", nil
}

// Uninstall stops the service and removes its file. It reports whether there was one. A service that cannot be stopped keeps its file.
func (s Service) Uninstall(ctx context.Context) (bool, error) {
	path, err := s.Path()
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := s.stop(ctx); err != nil && s.GOOS != "darwin" { // launchd fails if it does not run
		return true, fmt.Errorf("%w; %s was left as it is", err, path)
	}
	if err := os.Remove(path); err != nil || s.GOOS == "darwin" {
		return true, err
	}
	_, err = run(ctx, "systemctl", "--user", "daemon-reload")
	return true, err
}

func (s Service) domain() string { return "gui/" + strconv.Itoa(os.Getuid()) }

func run(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		return out.String(), fmt.Errorf("%s %s: %s", name, strings.Join(args, " "), cmp.Or(said, err.Error()))
	}
	return out.String(), nil
}
