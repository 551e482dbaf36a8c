package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/cli"
)

// output collects what a running command writes.
type output struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// process is a command that runs, with pipes to its standard input and output.
type process struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	errs *output
	stop context.CancelFunc
	code chan int
}

// begin starts a command line.
func begin(t *testing.T, args ...string) *process {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	p := &process{t, to, bufio.NewReader(from), &output{}, stop, make(chan int, 1)}
	go func() {
		p.code <- cli.Run(ctx, append(args, budget), cli.Env{In: in, Out: out, Err: p.errs, Getenv: func(string) string { return "" }, Now: time.Now})
		_ = out.Close()
	}()
	t.Cleanup(stop)
	return p
}

// say writes a frame.
func (p *process) say(frame string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, frame+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// hear reads a frame.
func (p *process) hear() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v; errors: %s", err, p.errs)
	}
	return line
}

// end closes standard input and returns what else was written, and the exit code.
func (p *process) end() (rest string, code int) {
	p.t.Helper()
	if err := p.in.Close(); err != nil {
		p.t.Fatal(err)
	}
	text, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text), <-p.code
}

// handshakes are what clients of each version of the protocol send, frame by frame as its specification has them.
var handshakes = map[string]string{
	"2024-11-05": `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"desktop","version":"0.1.0"}}}`,
	"2025-03-26": `{"jsonrpc":"2.0","id":"a-1","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{"listChanged":true},"sampling":{}},"clientInfo":{"name":"ExampleClient","version":"1.0.0"}}}`,
	"2025-06-18": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"ExampleClient","title":"Example Client Display Name","version":"1.0.0"}}}`,
	"2099-01-01": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"future","version":"9"},"novelty":{"x":1}}}`,
}

// frames follow the handshake. Those without an id get no answer.
var frames = []string{
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","id":10,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":11,"method":"tools/list"}`,
	`{"jsonrpc":"2.0","id":12,"method":"resources/list","params":{}}`,
	`{"jsonrpc":"2.0","id":13,"method":"resources/templates/list","params":{}}`,
	`{"jsonrpc":"2.0","id":14,"method":"prompts/list","params":{}}`,
	`{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"remember","arguments":{"content":"Deploys are frozen from Thursday noon.","title":"Deploy freeze","occurred_at":"2026-03-01"},"_meta":{"progressToken":3}}}`,
	`{"jsonrpc":"2.0","id":16,"method":"tools/call","params":{"name":"list"}}`,
	`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"update","arguments":{"id":"00000000-0000-4000-8000-000000000000","title":"x"}}}`,
	`{"jsonrpc":"2.0","id":18,"method":"tools/call","params":{"name":"remember","arguments":{"content":""}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":17,"reason":"too late"}}`,
	`{"jsonrpc":"2.0","id":19,"method":"tools/call","params":{"name":"dance"}}`,
	`{"jsonrpc":"2.0","id":20,"method":"no/such/method"}`,
}

var (
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	versions = regexp.MustCompile(`"version": "[^"]*"`)
)

// exchange says a frame and returns it with its answer, if it gets one, in a form that is the same each time.
func (p *process) exchange(frame string) string {
	p.t.Helper()
	p.say(frame)
	if !strings.Contains(frame, `"id"`) {
		return "→ " + frame + "\n"
	}
	answer := p.hear()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(answer), "", "  "); err != nil {
		p.t.Fatalf("%q: %v", answer, err)
	}
	text := ids.ReplaceAllString(pretty.String(), "ID")
	text = moments.ReplaceAllString(text, "TIME")
	text = versions.ReplaceAllString(text, `"version": "VERSION"`)
	return "→ " + frame + "\n← " + text + "\n"
}

// Clients of every version get what they got when the golden files were read and found right: answers in the shape of the
// specification, one line each, and nothing else on standard output. A version that is unknown is answered with one that is not.
func TestMCPHandshakes(t *testing.T) {
	t.Parallel()
	for version, handshake := range handshakes {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := begin(t, "mcp", "--sqlite="+filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed")
			golden(t, "mcp-"+version, p.exchange(handshake))
			if version != "2099-01-01" {
				var record strings.Builder
				for _, frame := range frames {
					record.WriteString(p.exchange(frame))
				}
				golden(t, "mcp", record.String())
			}
			rest, code := p.end()
			if rest != "" || code != 0 || p.errs.String() != "" {
				t.Errorf("exit code %d, more output %q, errors %q", code, rest, p.errs)
			}
		})
	}
}

// A gateway is asked when one is named, also one that is not there yet.
func TestMCPAsksAGateway(t *testing.T) {
	t.Parallel()
	address := serve(t)
	must(t, "", "remember", "The crane is serviced in spring.", "--address="+address, "--namespace=piers")
	for to, want := range map[string]string{address: "serviced in spring", "127.0.0.1:1": "Go on without it"} {
		p := begin(t, "mcp", "--address="+to, "--namespace=piers", "--timeout=10s")
		p.say(handshakes["2025-06-18"])
		p.hear()
		p.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"recall","arguments":{"query":"crane"}}}`)
		if got := p.hear(); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %s", to, want, got)
		}
		if rest, code := p.end(); rest != "" || code != 0 {
			t.Errorf("%s: exit code %d, more output %q, errors %q", to, code, rest, p.errs)
		}
	}
}

// What an agent remembers has the project that the agent works in, as turns have it. An agent that works in none names none.
func TestMCPTellsTheProject(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{"harbour/.git/HEAD": "", "crane/.git": "gitdir: ../harbour/.git/worktrees/crane\n", "none/x": ""} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string][]string{
		"harbour": {`"project":"` + root + `/harbour"`, `"source":"agent in harbour"`, `"source":"Ada"`}, "crane": {`"source":"agent in harbour"`}, "none": {`"source":"Ada"`},
	} {
		address := serve(t)
		var out bytes.Buffer
		var in strings.Builder
		in.WriteString(handshakes["2025-06-18"] + "\n")
		for i, arguments := range []string{`"content":"The crane is serviced in spring."`, `"content":"The pier is closed in winter.","source":"Ada"`} {
			in.WriteString(`{"jsonrpc":"2.0","id":"` + strconv.Itoa(i) + `","method":"tools/call","params":{"name":"remember","arguments":{` + arguments + `}}}` + "\n")
		}
		code := cli.Run(t.Context(), []string{"mcp", "--address=" + address}, cli.Env{
			In: strings.NewReader(in.String()), Out: &out, Err: &out, Getenv: func(string) string { return "" }, Now: time.Now, Folder: filepath.Join(root, folder),
		})
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", folder, code, out.String())
		}
		stored := must(t, "", "export", "--address="+address)
		for _, part := range want {
			if !strings.Contains(stored, part) {
				t.Errorf("%s: no %s in %s", folder, part, stored)
			}
		}
		if folder == "none" && (strings.Contains(stored, "project") || strings.Contains(stored, "agent in")) {
			t.Errorf("%s is no project: %s", folder, stored)
		}
	}
}

// A signal ends a server whose client says nothing.
func TestMCPIsInterrupted(t *testing.T) {
	t.Parallel()
	p := begin(t, "mcp", "--sqlite="+filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed")
	p.say(handshakes["2025-06-18"])
	p.hear()
	p.stop()
	if code := <-p.code; code != 0 || p.errs.String() != "" {
		t.Errorf("exit code %d, errors %q; want 0 and none", code, p.errs)
	}
}

// A signal ends a server whose client has stopped reading, too.
func TestMCPIsInterruptedWhileItWrites(t *testing.T) {
	t.Parallel()
	p := begin(t, "mcp", "--sqlite="+filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed")
	p.say(handshakes["2025-06-18"])
	p.hear()
	p.say(`{"jsonrpc":"2.0","id":11,"method":"tools/list"}`)
	if _, err := p.out.Peek(1); err != nil { // the rest is more than the reader holds
		t.Fatal(err)
	}
	p.stop()
	select {
	case code := <-p.code:
		if code != 0 {
			t.Errorf("exit code %d, errors %q; want 0", code, p.errs)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

var listening = regexp.MustCompile(`MCP on (https?://\S+);`)

// listen starts an HTTP server and returns its address.
func listen(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	p := begin(t, append([]string{"mcp", "--listen=127.0.0.1:0", "--sqlite=" + filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed"}, args...)...)
	for {
		if found := listening.FindStringSubmatch(p.errs.String()); found != nil {
			return p, found[1]
		}
		select {
		case code := <-p.code:
			t.Fatalf("exit code %d: %s", code, p.errs)
		case <-time.After(time.Millisecond):
		}
	}
}

// A client of the newest revision says all in each request, and begins no session.
func TestMCPNeedsNoSession(t *testing.T) {
	t.Parallel()
	p, url := listen(t)
	ask := func(method, name, params string) string {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for header, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
		} {
			req.Header.Set(header, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Mcp-Session-Id") != "" {
			t.Fatalf("%s: %s %v, %v\n%s", method, resp.Status, resp.Header, err, answer)
		}
		return string(answer)
	}
	if got := ask("server/discover", "", ""); !strings.Contains(got, "2026-07-28") {
		t.Errorf("the server knows %s, not 2026-07-28", got)
	}
	ask("subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`) // ends at once: there is no news
	ask("tools/call", "remember", `"name":"remember","arguments":{"content":"Deploys are frozen from Thursday noon."},`)
	if got := ask("tools/call", "recall", `"name":"recall","arguments":{"query":"deploy freeze"},`); !strings.Contains(got, "frozen from Thursday") {
		t.Errorf("recall answers %s", got)
	}
	for broken, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"` + "\xff" + `"}}`: "must be UTF-8",
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":1,"x":2}}`:          "duplicate field",
		strings.Repeat(" ", 4<<20) + "{}":                                          "at most 4194304 bytes",
	} {
		resp, err := http.Post(url, "application/json", strings.NewReader(broken))
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 400 && resp.StatusCode != 413 || !strings.Contains(string(said), want) {
			t.Errorf("%s: %s %s", broken, resp.Status, said)
		}
	}
	p.stop()
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d: %s", code, p.errs)
	}
}

// Web pages cannot use a server on the same machine: neither from their own origin, nor by a name that leads here.
func TestMCPKeepsWebPagesOut(t *testing.T) {
	t.Parallel()
	p, url := listen(t, "--allow-host=Memory.Example")
	for name, x := range map[string]struct {
		host, origin string
		want         int
	}{
		"an agent":                  {"", "", 200},
		"by localhost":              {"localhost:80", "", 200},
		"by a name that is allowed": {"memory.example", "", 200},
		"a page of its own":         {"localhost:80", "http://localhost:80", 200},
		"a page from elsewhere":     {"", "https://evil.example", 403},
		"a page without an origin":  {"", "null", 403},
		"DNS rebinding":             {"evil.example:80", "http://evil.example:80", 403},
		"DNS rebinding, no origin":  {"evil.example", "", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(handshakes["2025-06-18"]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if x.host != "" {
			req.Host = x.host
		}
		if x.origin != "" {
			req.Header.Set("Origin", x.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != x.want {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, x.want)
		}
	}
	p.stop()
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d, errors %q", code, p.errs)
	}
}

func TestMCPFlags(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a host without --listen": {"--allow-host=x"}, "a URL without --listen": {"--public-url=https://x/mcp"},
		"a URL without a scheme": {"--listen=127.0.0.1:0", "--public-url=memory.example/mcp"}, "a URL of another scheme": {"--listen=127.0.0.1:0", "--public-url=ftp://x/mcp"},
		"a URL without a host": {"--listen=127.0.0.1:0", "--public-url=https://:80/mcp"}, "a URL with a query": {"--listen=127.0.0.1:0", "--public-url=https://x/mcp?y"},
		"a URL with a fragment": {"--listen=127.0.0.1:0", "--public-url=https://x/mcp#y"}, "a URL with a password": {"--listen=127.0.0.1:0", "--public-url=https://u:p@x/mcp"},
		"tokens without --listen": {"--tokens=x"}, "a log without --listen": {"--audit=-"}, "a log without tokens": {"--listen=127.0.0.1:0", "--audit=-"}, "no tokens": {"--max-tokens=0"}, "no time": {"--budget=0s"}, "two stores": {"--postgres=x", "--sqlite=y"}, "no namespace": {"-n", "BAD NS"},
	} {
		if got := run("", append([]string{"mcp"}, args...)...); got.code != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := run("", "mcp", "--listen=0.0.0.0:0", "--sqlite="+filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed"); got.code != 2 || !strings.Contains(got.err, "--allow-remote") {
		t.Errorf("an address for others: %+v", got)
	}
}

// Neither what is stored nor what is asked is logged, accepted or not.
func TestMCPLogsNoTexts(t *testing.T) {
	t.Parallel()
	p, url := listen(t, "--log-level=debug")
	for _, frame := range []string{
		handshakes["2025-06-18"],
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"remember","arguments":{"content":"quokka","title":"quokka","tags":["quokka"]}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"recall","arguments":{"query":"quokka","since":"quokka"}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"quokka","arguments":{"quokka":1}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"triskele://memory/quokka"}}`,
		`{"jsonrpc":"2.0","id":6,"quokka`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	p.stop()
	<-p.code
	if log := p.errs.String(); strings.Contains(log, "quokka") || !strings.Contains(log, "level=") {
		t.Errorf("the log: %s", log)
	}
}
