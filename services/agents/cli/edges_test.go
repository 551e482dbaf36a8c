package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/agents/cli"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// What new users do wrong is answered with what to do.
func TestWrongUseIsExplained(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	first := strings.TrimSpace(strings.TrimPrefix(must(t, "", "remember", "The crane is serviced in spring.", to), "remembered "))
	expired := strings.TrimSpace(strings.TrimPrefix(must(t, "", "remember", "It was serviced.", "--expires=2020-01-01", "--idempotency-key=old", to), "remembered "))
	for want, args := range map[string][]string{
		"put a text of several words in quotes: triskele remember": {"remember", "several", "words"},
		"put a text of several words in quotes: triskele recall":   {"recall", "several", "words"},
		"memory.content: must have more than white space":          {"remember", " \t\n", to},
		"query: must have more than white space":                   {"recall", " \t\n", to},
		"memory.expires_at: must be in the future":                 {"remember", "x", "--expires=2020-01-01", to},
		"is missing: name a namespace":                             {"remember", "x", "--namespace=", to},
		"must be lower-case letters, digits,":                      {"remember", "x", "--namespace=My Project", to},
		"has an id that begins with 00000000":                      {"get", "00000000", to},
		"unless it has expired":                                    {"get", expired[:20], to},
		"give 4 characters or more":                                {"get", first[:3], to},
	} {
		if got := run("", args...); got.code == 0 || !strings.Contains(got.err, want) || strings.Contains(got.err, "regex") {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
	for _, blank := range []string{"  ", "\u200b\u00a0\u3000", "\ufeff\u2060\u200d\u00ad"} {
		for _, args := range [][]string{{"update", first, "--content=" + blank, to}, {"remember", blank, to}, {"recall", blank, to}} {
			if got := run("", args...); got.code != 2 || !strings.Contains(got.err, "more than white space") {
				t.Errorf("%q: %+v, want that nothing to read is refused", args, got)
			}
		}
	}
}

// TestTextsAreUTF8: a broken text is neither stored with other characters nor explained by gRPC's words.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	if got := run("", "remember", "bad \xff", to); got.code != 2 || !strings.Contains(got.err, `argument "bad \xff" is not UTF-8`) {
		t.Errorf("an argument: %+v", got)
	}
	if got := run("bad \xff", "remember", "-", to); got.code != 1 || !strings.Contains(got.err, "the text on standard input is not UTF-8") {
		t.Errorf("standard input: %+v", got)
	}
	if got := run(strings.Repeat("x", 1<<20-1)+"é", "remember", "-", to); got.code != 1 || !strings.Contains(got.err, "may have at most") {
		t.Errorf("a text that is too long: %+v", got)
	}
	wantContains(t, "a byte order mark", must(t, "\ufeffmarked\r\n", "remember", "-", "--json", to), `"content": "marked"`)
	if got := run("", "hook", "bad \xff"); got.code != 0 {
		t.Errorf("the hook: %+v, want no veto", got)
	}
	if got := must(t, "", "list", to); strings.Contains(got, "bad") {
		t.Errorf("stored: %s", got)
	}
}

func TestBeginningsOfIDs(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	id := func(out string) string { return strings.TrimSpace(strings.TrimPrefix(out, "remembered ")) }
	first := id(must(t, "", "remember", "The crane is serviced in spring.", to))
	second := id(must(t, "", "remember", "Tea is at four.", to))
	common := sharedBeginning(first, second)
	wantContains(t, "get", must(t, "", "get", strings.ToUpper(first[:common+1]), to), "The crane is serviced in spring.")
	if got := run("", "get", first[:max(common, 4)], to); common >= 4 && (got.code != 1 || !strings.Contains(got.err, "several memories")) {
		t.Errorf("a beginning of two: %+v", got)
	}
	wantContains(t, "update", must(t, "", "update", first[:common+1], "--title=Crane", to), "updated "+first)
	third := must(t, "", "supersede", first[:common+1], "The crane is serviced in autumn.", to)
	wantContains(t, "supersede", third, "which supersedes "+first)
	// The newest id may share more with the second one than the first does: all ids begin with the time.
	newest, _, _ := strings.Cut(id(third), ",")
	common = max(common, sharedBeginning(newest, second))
	wantContains(t, "forget", must(t, "", "forget", second[:common+1], to), "forgot 1 memory")
}

func sharedBeginning(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestTLSFaultsAreExplained: a gateway that answers is there, and what is wrong with its certificate is said.
func TestTLSFaultsAreExplained(t *testing.T) {
	t.Parallel()
	authority, other := authtest.NewAuthority(t), authtest.NewAuthority(t)
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files := authority.Issue(t, "gateway.example")
	files.Reload = time.Minute
	start := func(clients ...string) string {
		server, listener, err := auth.Listener{Listen: "127.0.0.1:0", TLS: files, Clients: clients}.Open(auth.Access{}, process.Service("fuser"), storetest.Log())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		return listener.Addr().String()
	}
	secure, mutual, plain, foreign := start(), start("agent"), serve(t), other.Issue(t, "agent")
	_, port, _ := net.SplitHostPort(secure)
	for want, args := range map[string][]string{
		"no TLS connection to localhost:" + port + ": x509: certificate is valid for gateway.example, not localhost; --address": {"--address=localhost:" + port, "--tls-ca", authority.File},
		"no TLS connection to " + secure + ": x509: certificate signed by unknown authority":                                    {"--address", secure, "--tls-ca", other.File},
		"what answers at " + plain + " has no TLS: leave out --tls-ca":                                                          {"--address", plain, "--tls-ca", authority.File},
		"if it serves TLS, name its authority with --tls-ca":                                                                    {"--address", secure},
		"what answers at " + mutual + " ends the connection: ":                                                                  {"--address", mutual, "--tls-ca", authority.File},
		"if it wants certificates of its callers, give one that it accepts with --tls-cert and --tls-key":                       {"--address", mutual, "--tls-ca", authority.File, "--tls-cert", foreign.Cert, "--tls-key", foreign.Key},
	} {
		if got := run("", append([]string{"list"}, args...)...); got.code != 1 || !strings.Contains(got.err, want) || strings.Contains(got.err, "start one") {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
}

func TestDeadGatewayIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // its clock goes on when all wait for it, as between retries
		began := time.Now()
		got := run("", "recall", "x", "--address="+address)
		if took := time.Since(began); got.code != 1 || !strings.Contains(got.err, "no gateway answers at "+address) || took > 0 {
			t.Errorf("got %+v after waiting for %v, want an error at once", got, took)
		}
	})
}

func TestMistypedPathMakesNoFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "typo", "x.db")
	got := run("", "up", "--sqlite="+path, "--listen=127.0.0.1:0")
	if got.code != 1 || !strings.Contains(got.err, "there is no folder "+filepath.Dir(path)+": create it, or correct --sqlite") {
		t.Errorf("got %+v", got)
	}
}

// A session survives what is no message, and everything that was asked before the end of input is answered.
func TestMCPAnswersAllLines(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	in := handshakes["2025-06-18"] + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\nnot a message\n"
	for i := range 5 {
		in += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"remember","arguments":{"content":"Crane %d."}}}`, i+10, i) + "\n"
	}
	got := run(in, "mcp", to)
	if got.code != 0 || strings.Count(got.out, "Remembered as ") < 5 || !strings.Contains(got.out, `"code":-32700`) {
		t.Errorf("got %+v", got)
	}
}

// A recall says which time of its question a memory fits, and prefers it.
func TestTimesInQuestions(t *testing.T) {
	to := "--address=" + serve(t)
	for day, text := range map[string]string{"2023-05-03": "The crane was repaired by Maren.", "2024-05-03": "The crane was repaired by Teo."} {
		must(t, text, "remember", "-", "--occurred="+day, to)
	}
	for query, want := range map[string]string{"Who repaired the crane in May 2023?": "Maren", "Who repaired the crane in May 2024?": "Teo", "Who repaired the crane last month? --as-of=2023-06-09": "Maren"} {
		query, asOf, _ := strings.Cut(query, " --")
		args := []string{"recall", query, "--all", to}
		if asOf != "" {
			args = append(args, "--"+asOf)
		}
		out := must(t, "", args...)
		lines := strings.SplitAfter(out, "matched: ")
		if len(lines) != 2 || !strings.Contains(lines[0], "by "+want) || strings.Contains(lines[0], "by "+map[string]string{"Maren": "Teo", "Teo": "Maren"}[want]) {
			t.Errorf("%s: got\n%s\nwant %s first, with the time it matched", query, out, want)
		}
		if text := must(t, "", append(args, "--max-tokens=200")...); !strings.Contains(text, "matched: ") {
			t.Errorf("%s: got the briefing\n%s\nwant it to say what matched", query, text)
		}
	}
}

// TestInterruptedWhileReading: one interrupt ends a command that waits for standard input, for a pipe's other end or for its text.
func TestInterruptedWhileReading(t *testing.T) {
	t.Parallel()
	address := "--address=" + serve(t)
	silent := filepath.Join(t.TempDir(), "silent")
	pipe := filepath.Join(t.TempDir(), "pipe")
	for _, path := range []string{pipe, silent} {
		if err := exec.Command("mkfifo", path).Run(); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := os.OpenFile(silent, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	for _, args := range [][]string{{"remember", "-"}, {"recall", "-"}, {"import", "-"}, {"namespace", "delete", "birds"}, {"import", pipe}, {"import", silent}} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			in, typing := io.Pipe()
			defer func() { _ = typing.Close() }()
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan outcome, 1)
			go func() {
				var out, errs bytes.Buffer
				code := cli.Run(ctx, append(args, address), cli.Env{In: in, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: clock})
				ended <- outcome{code, out.String(), errs.String()}
			}()
			time.AfterFunc(300*time.Millisecond, interrupt) // while it waits
			select {
			case got := <-ended:
				if got.code != 1 || !strings.Contains(got.err, "interrupted") {
					t.Errorf("got %+v, want that it was interrupted", got)
				}
			case <-time.After(20 * time.Second):
				t.Error("it does not end")
			}
		})
	}
}
