package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/triskele/triskele/services/agents/cli"
)

// terminal returns both ends of a terminal: what a user types into, and what a program reads from.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

func TestMissingFolderIsAskedFor(t *testing.T) {
	t.Parallel()
	for answer, code := range map[string]int{"y": 0, "Yes": 0, "no": 1, "": 1} {
		user, program := terminal(t)
		path := filepath.Join(t.TempDir(), "missing", "x.db")
		if _, err := user.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), []string{"migrate", "up", "--sqlite=" + path}, cli.Env{
			In: program, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now,
		})
		if question := "There is no folder " + filepath.Dir(path) + ". Create it? [y/N] "; got != code || !strings.HasPrefix(errs.String(), question) {
			t.Errorf("%q: exit code %d, want %d, and asked %q", answer, got, code, errs.String())
		}
		if _, err := os.Stat(path); (err == nil) != (code == 0) {
			t.Errorf("%q: the file: %v", answer, err)
		}
		if _, err := user.WriteString("more\n"); err != nil {
			t.Fatal(err)
		}
		if more, err := bufio.NewReader(program).ReadString('\n'); err != nil || more != "more\n" {
			t.Errorf("%q: the program reads %q, %v after it", answer, more, err)
		}
		if echo, err := bufio.NewReader(user).ReadString('\n'); err != nil || strings.TrimSpace(echo) != answer {
			t.Errorf("%q: the terminal shows %q, %v", answer, echo, err)
		}
	}
}
