package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "triskele.yaml")
	if err := os.WriteFile(file, []byte("namespace: acme\npostgres: postgres://recall:secret@127.0.0.1:1/triskele\nrecall: {limit: 3}\ncurator-key: opensesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run("", "recall", "x", "--config="+file, "--address=127.0.0.1:1")
	wantContains(t, "a command that was told by the file", got.err, "127.0.0.1:1")
	if got = run("", "queue", "list", "--config="+file); got.code != 1 || !strings.Contains(got.err, "is --postgres (or TRISKELE_POSTGRES) its URL?") || strings.Contains(got.err, "secret") {
		t.Errorf("a database that is not there: %+v", got)
	}
	if got = run("", "recall", "x", "--limit=3", "--confg=x"); got.code != 2 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(file, []byte("recal: {limit: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got = run("", "recall", "x", "--config="+file); got.code != 2 || !strings.Contains(got.err, `no setting is called "recal"`) {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"hook", "--config=" + file}, {"--config=" + file, "hook"}} {
		if got = run("{}", args...); got.code != 0 || got.out != "" {
			t.Errorf("a hook with a wrong file: %+v", got)
		}
	}
}

func TestColour(t *testing.T) {
	for palette, want := range map[string]bool{"auto": false, "never": false, "always": true} { // what is written to is no terminal
		if got := run("", "recall", "x", "--address=127.0.0.1:1", "--color="+palette); got.code != 1 || strings.Contains(got.err, "\x1b[") != want {
			t.Errorf("%s: %+v", palette, got)
		}
	}
}
