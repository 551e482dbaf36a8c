package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/triskele/triskele/fuser/platform/auth"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// More words, of what agents say and ask.
const (
	said    = "quokkasaid"                                    // of sessions: goes where the words of other memories go
	key     = "gh" + "p_quokkakey0123456789abcdefghijklmnopq" // a token in a session: goes nowhere
	ignored = "quokkaignored"                                 // of a project that is not to be captured: goes nowhere
)

// sources is the folder of what is imported.
const sources = "sources"

// useAgents has an agent connected, speaks and asks by its hooks and by MCP, and imports its sessions and sources of other kinds.
func (c *cage) useAgents() {
	c.t.Helper()
	home, err := os.MkdirTemp("", "triskele-canary-") // the processes that hooks leave behind may still write at the end
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = os.RemoveAll(home) })
	a := &canaryAgent{c, home}
	to := []string{"--address", c.conn.Target(), "--namespace", where}
	c.out.add("what connect prints", a.triskele(append([]string{"connect", "claude-code"}, to...)...))
	hooks := a.hooks()

	project, hidden := filepath.Join(home, "open"), filepath.Join(home, "hidden")
	for _, folder := range []string{project, hidden} {
		a.do(os.Mkdir(folder, 0o700))
	}
	a.do(os.WriteFile(filepath.Join(hidden, ".triskeleignore"), nil, 0o600))
	session := a.session("s1", project, "The vault of Kestrel is cleaned by "+said+"captured. My token is "+key+", keep it.")
	other := a.session("s2", hidden, "The vault of Kestrel is hidden by "+ignored+".")
	a.event(hooks["Stop"], "Stop", session, project, "")
	a.event(hooks["SessionEnd"], "SessionEnd", other, hidden, "")
	c.eventually("the session is stored", func() bool { return len(c.turns()) == 1 })
	imported := a.session("s3", project, "The vault of Kestrel is painted by "+said+"imported. My token is "+key+", keep it.")
	c.out.add("what imports print", a.triskele("import", imported, "--from=claude-code", "--namespace", where, "--address", c.conn.Target()),
		a.triskele("capture", other, "--dry-run"))
	if turns := c.turns(); len(turns) != 2 {
		c.t.Errorf("got %d turns, want one that was captured and one that was imported", len(turns))
	}
	c.awaitIndexes(where)

	start := a.event(hooks["SessionStart"], "SessionStart", session, project, `,"source":"startup"`)
	if !strings.Contains(start, said) || !strings.Contains(start, "[redacted: ") {
		c.t.Errorf("got the briefing %s, want one with what was said", start)
	}
	a.event(hooks["UserPromptSubmit"], "UserPromptSubmit", session, project, `,"prompt":"What opens the vault of Kestrel, `+asked+`?"`)
	a.speak(to)
	a.speakHTTP(to)
	a.importAll(to)
	c.out.add("what connect prints", a.triskele("connect", "--list", "--json"))
	a.readFiles()
}

// turns are the memories of what was said.
func (c *cage) turns() []*triskelev1.Memory {
	resp, err := c.memory.List(c.t.Context(), &triskelev1.ListRequest{Namespace: where, Filter: &triskelev1.Filter{Categories: []string{"turn"}}})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetMemories()
}

// canaryAgent is an agent with a home folder of its own.
type canaryAgent struct {
	*cage
	home string
}

func (a *canaryAgent) do(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *canaryAgent) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(a.t.Context(), name, args...)
	cmd.Dir, cmd.Env = a.home, append([]string{"HOME=" + a.home, "PATH=" + os.Getenv("PATH"), "TRISKELE_CONFIG=off"}, a.env...)
	return cmd
}

func (a *canaryAgent) triskele(args ...string) string {
	a.t.Helper()
	out, err := a.command(filepath.Join(programs, "triskele"), args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// hooks returns the command lines that connect has written, by event.
func (a *canaryAgent) hooks() map[string]string {
	a.t.Helper()
	var settings struct {
		Hooks map[string][]struct{ Hooks []struct{ Command string } }
	}
	text, err := os.ReadFile(filepath.Join(a.home, ".claude", "settings.json"))
	a.do(err)
	a.do(json.Unmarshal(text, &settings))
	lines := map[string]string{}
	for event, groups := range settings.Hooks {
		lines[event] = groups[0].Hooks[0].Command
	}
	return lines
}

// session writes a transcript with one turn.
func (a *canaryAgent) session(id, folder, text string) string {
	a.t.Helper()
	line, err := json.Marshal(map[string]any{
		"type": "user", "uuid": id, "sessionId": id, "cwd": folder, "timestamp": time.Now().UTC(), "message": map[string]any{"content": text},
	})
	a.do(err)
	path := filepath.Join(a.home, id+".jsonl")
	a.do(os.WriteFile(path, append(line, '\n'), 0o600))
	return path
}

// event runs a hook as the client does, and returns what it gives the agent.
func (a *canaryAgent) event(line, name, session, folder, more string) string {
	a.t.Helper()
	cmd := a.command("sh", "-c", line+" --within 30s --why")
	var out, errs bytes.Buffer
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s","transcript_path":%q,"cwd":%q,"hook_event_name":%q%s}`, session, folder, name, more))
	cmd.Stdout, cmd.Stderr = &out, &errs
	a.do(cmd.Run())
	a.out.add("what hooks give agents", out.String())
	a.out.add("what hooks say", errs.String())
	return out.String()
}

// speak uses all that the MCP server offers, rightly and wrongly, and keeps what it logs.
func (a *canaryAgent) speak(to []string) {
	a.t.Helper()
	cmd := a.command(filepath.Join(programs, "triskele"), append([]string{"mcp", "--log-level=debug"}, to...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	a.talk(&mcp.CommandTransport{Command: cmd})
	a.out.add("what the MCP server logs", errs.String())
}

// shown shows a token with every request.
type shown string

func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(s))
	return http.DefaultTransport.RoundTrip(r)
}

// speakHTTP does the same over HTTP, with a token, and reads the audit log, which is in the home folder.
func (a *canaryAgent) speakHTTP(to []string) {
	a.t.Helper()
	secret, entry, err := auth.NewToken(auth.Token{Namespaces: []string{where}, Scopes: auth.Scopes}, time.Now())
	a.do(err)
	tokens, audit := filepath.Join(a.home, "tokens.json"), filepath.Join(a.home, "audit.jsonl")
	a.do(auth.WriteTokens(tokens, []auth.Token{entry}))
	cmd := a.command(filepath.Join(programs, "triskele"), append([]string{"mcp", "--log-level=debug", "--listen=127.0.0.1:0", "--tokens", tokens, "--audit", audit}, to...)...)
	var errs log
	cmd.Stderr = &errs
	a.do(cmd.Start())
	var url []string
	a.eventually("MCP over HTTP", func() bool {
		url = regexp.MustCompile(`MCP on (http://\S+);`).FindStringSubmatch(errs.String())
		return url != nil
	})
	a.talk(&mcp.StreamableClientTransport{Endpoint: url[1], HTTPClient: &http.Client{Transport: shown(secret)}, MaxRetries: -1})
	a.do(cmd.Process.Signal(syscall.SIGTERM))
	a.do(cmd.Wait())
	a.out.add("what the MCP server logs", errs.String())
	written, err := os.ReadFile(audit)
	a.do(err)
	a.out.add("the audit log", string(written))
	a.token = secret
}

// importAll imports a source of each kind but databases, keeps a folder of notes in step, and keeps what that prints. The sources are the agent's own.
func (a *canaryAgent) importAll(to []string) {
	a.t.Helper()
	folder := filepath.Join(a.home, sources)
	text := func(of string) string {
		return "The vault of Kestrel is mended by " + said + of + ". My token is " + key + ", keep it."
	}
	note := func(of string) string {
		return "---\nsensitive: true\ntitle: " + private + of + "\ntags: [" + private + of + "]\n---\nThe vault of Kestrel opens for " + private + of + ".\n"
	}
	for path, content := range map[string]string{
		"codex/rollout-1.jsonl": `{"type":"session_meta","payload":{"id":"s4","cwd":"/open"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text("codex") + `"}]}}
{"type":"response_item","payload":"` + refused + `"}
`,
		"gemini/session-1.json": `{"sessionId":"s5","projectHash":"h","messages":[{"id":"1","type":"user","content":"` + text("gemini") + `"}]}`,
		"chatgpt/conversations.json": `[{"title":"Vaults","conversation_id":"g","current_node":"1","mapping":{"1":{"message":{"id":"1","author":{"role":"user"},` +
			`"content":{"content_type":"text","parts":["` + text("chatgpt") + `"]}},"parent":null}}},{"` + refused + `":1}]`,
		"claude/conversations.json": `[{"uuid":"c","name":"Vaults","chat_messages":[{"uuid":"1","text":"` + text("claude") + `","sender":"human"}]},{"` + refused + `":1}]`,
		"mem0":                      `[{"id":"a","memory":"The vault of Kestrel is known to ` + said + `mem0."},{"id":"b","memory":["` + refused + `"]}]`,
		"basic-memory/vault.md":     note("basic"),
		"basic-memory/wrong.md":     "---\n: [" + refused + "\n---\n\x00" + refused,
		"notes/door.md":             note("notes"),
		"jsonl":                     `{"content":"The vault of Kestrel opens for ` + private + `jsonl.","sensitive":true}` + "\n",
	} {
		path = filepath.Join(folder, path)
		a.do(errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)))
	}
	for _, from := range []string{"codex", "gemini", "chatgpt", "claude", "mem0", "basic-memory", "jsonl"} {
		a.imports(1, append([]string{"import", filepath.Join(folder, from), "--from", from}, to...)...)
	}
	a.imports(1, append([]string{"sync", filepath.Join(folder, "notes")}, to...)...)
	a.awaitIndexes(where)
}

// imports runs a command that stores so many memories. It may skip others.
func (a *canaryAgent) imports(stored int, args ...string) {
	a.t.Helper()
	out, err := a.command(filepath.Join(programs, "triskele"), args...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 3) || !strings.Contains(string(out), fmt.Sprint("stored ", stored)) {
		a.t.Errorf("%q: %v: %s, want %d stored", args, err, out, stored)
	}
	a.out.add("what imports print", string(out))
}

// talk speaks to an MCP server by all that it offers.
func (a *canaryAgent) talk(transport mcp.Transport) {
	a.t.Helper()
	ctx := a.t.Context()
	client, err := mcp.NewClient(&mcp.Implementation{Name: refused, Version: refused}, nil).Connect(ctx, transport, nil)
	a.do(err)
	meta := mcp.Meta{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	for _, call := range []*mcp.CallToolParams{
		{Meta: meta, Name: "recall", Arguments: map[string]any{"query": "What opens the vault of Kestrel, " + asked + "?"}},
		{Meta: meta, Name: "recall", Arguments: map[string]any{"query": "x", refused: refused}},
		{Meta: meta, Name: "remember", Arguments: map[string]any{"content": "x", "expires_at": refused}},
		{Meta: meta, Name: "remember", Arguments: map[string]any{"content": "The vault of Kestrel opens for " + private + "spoken.", "sensitive": true}},
		{Meta: meta, Name: "list", Arguments: map[string]any{"page_token": refused}},
		{Meta: meta, Name: refused},
	} {
		_, _ = client.CallTool(ctx, call) // agents get answers and errors, and nobody else does
	}
	read, err := client.ReadResource(ctx, &mcp.ReadResourceParams{Meta: meta, URI: "triskele://memory/" + a.secret[0].GetId()})
	a.do(err)
	if !strings.Contains(read.Contents[0].Text, private) {
		a.t.Errorf("got %s, want the sensitive memory: its reader asked for it", read.Contents[0].Text)
	}
	_, _ = client.ReadResource(ctx, &mcp.ReadResourceParams{Meta: meta, URI: "triskele://memory/" + refused})
	_, err = client.GetPrompt(ctx, &mcp.GetPromptParams{Meta: meta, Name: "what_do_we_know", Arguments: map[string]string{"topic": "the vault of Kestrel, " + asked}})
	a.do(err)
	_, _ = client.GetPrompt(ctx, &mcp.GetPromptParams{Meta: meta, Name: refused})
	a.do(client.Close())
}

// readFiles reads all that is left in the home folder but the sessions and the sources of imports, which are the agent's own.
func (a *canaryAgent) readFiles() {
	a.t.Helper()
	a.do(filepath.WalkDir(a.home, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == sources {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || slices.Contains([]string{"s1.jsonl", "s2.jsonl", "s3.jsonl"}, entry.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		a.out.add("files of the agent", path+"\n"+string(text))
		return err
	}))
}
