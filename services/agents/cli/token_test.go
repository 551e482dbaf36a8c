package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/triskele/triskele/fuser/platform/auth"
)

// creating is the environment variable that has this test binary make tokens in the file that it names.
const creating = "TRISKELE_TEST_CREATE_TOKENS"

// TestTokensOfSeveralProcesses has processes make tokens in one file at the same moment: none is lost.
func TestTokensOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 25
	if file := os.Getenv(creating); file != "" {
		for i := range each {
			if got := run("", "token", "create", fmt.Sprint(os.Getpid(), i), "-n", "*", "--tokens", file); got.code != 0 {
				t.Fatalf("%+v", got)
			}
		}
		return
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	var running sync.WaitGroup
	for range processes {
		running.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTokensOfSeveralProcesses$")
			cmd.Env = append(os.Environ(), creating+"="+file)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	running.Wait()
	if tokens, err := auth.ReadTokens(file); err != nil || len(tokens) != processes*each {
		t.Errorf("%d tokens of %d, %v", len(tokens), processes*each, err)
	}
}

// A file behind a link is changed where it is: gateways may read it by its own name.
func TestTokensBehindALink(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	link := filepath.Join(t.TempDir(), "tokens.json")
	if got := run("", "token", "create", "one", "-n", "*", "--tokens", file); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.ReadTokens(file)
	if err != nil || len(tokens) != 1 {
		t.Fatalf("got %v, %v; want one token", tokens, err)
	}
	must(t, "", "token", "revoke", tokens[0].ID, "--tokens", link)
	if tokens, err = auth.ReadTokens(file); err != nil || tokens[0].Revoked.IsZero() {
		t.Errorf("got %+v, %v; want a revoked token", tokens, err)
	}
}

// TestToken makes tokens, lists them and revokes one; no list has a token itself.
func TestToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	got := run("", "token", "create", "billing", "-n", "acme/*", "-n", "shared", "--scope", "recall,read", "--expires", "90d", "--tokens", file)
	secret := strings.TrimSpace(got.out)
	if got.code != 0 || !strings.HasPrefix(secret, "trsk_") || strings.Contains(got.err, secret) {
		t.Fatalf("%+v", got)
	}
	var made struct {
		auth.Token
		Secret string `json:"token"`
	}
	if err := json.Unmarshal([]byte(must(t, "", "token", "create", "nightly", "-n", "*", "--json", "--tokens", file)), &made); err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.ReadTokens(file)
	if err != nil || len(tokens) != 2 || tokens[1].Hash != made.Hash || tokens[1].ID != strings.Split(made.Secret, "_")[1] {
		t.Fatalf("%+v, %v", tokens, err)
	}
	if days := tokens[0].Expires.Sub(tokens[0].Created).Hours() / 24; days != 90 || !tokens[1].Expires.IsZero() {
		t.Errorf("expires after %g days, and %v", days, tokens[1].Expires)
	}
	if out := must(t, "", "token", "revoke", tokens[0].ID, "--tokens", file); !strings.Contains(out, "billing") {
		t.Error(out)
	}
	list := must(t, "", "token", "list", "--tokens", file)
	for _, want := range []string{tokens[0].ID + "  revoked  billing  acme/*,shared", "active   nightly  *", "never"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %q:\n%s", want, list)
		}
	}
	if lines := must(t, "", "token", "list", "--json", "--tokens", file); strings.Count(lines, "\n") != 2 || strings.Contains(lines+list, strings.SplitN(secret, "_", 3)[2]) {
		t.Errorf("%s", lines)
	}
	for name, args := range map[string][]string{
		"namespace": {"create", "x", "-n", "Acme"},
		"past":      {"create", "x", "-n", "a", "--expires", "2020-01-01"},
		"unknown":   {"revoke", "0123456789ab"},
	} {
		if got := run("", append(append([]string{"token"}, args...), "--tokens", file)...); got.code != 1 || got.err == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := run("", "token", "create", "x", "-n", "a", "--scope", "all", "--tokens", file); got.code != 2 {
		t.Errorf("an unknown scope: %+v", got)
	}
	if got := run("", "token", "create", " ", "-n", "a", "--tokens", file); got.code != 2 || !strings.Contains(got.err, "the name must not be empty") {
		t.Errorf("an empty name: %+v", got)
	}
}
