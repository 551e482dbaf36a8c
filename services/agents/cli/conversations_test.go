package cli_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/agents/cli"

	_ "modernc.org/sqlite" // the driver
)

// stored returns the contents of a namespace, by title and content.
func stored(t *testing.T, namespace, to string) string {
	t.Helper()
	out := must(t, "", "export", "--namespace="+namespace, to)
	var b strings.Builder
	for line := range strings.Lines(out) {
		var m struct {
			Content, Title string
			OccurredAt     string `json:"occurred_at"`
			ExpiresAt      string `json:"expires_at"`
			Tags           []string
			Metadata       map[string]any
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s|%s|%s|%s|%v|%v\n", m.Title, m.Content, m.OccurredAt, m.ExpiresAt, m.Tags, m.Metadata["role"])
	}
	return b.String()
}

// Each kind of source, in a file of its shape: imported once, and again without effect.
func TestImportConversations(t *testing.T) {
	to := "--address=" + serve(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const question, answer = "When is the harbour crane serviced?", "The harbour crane is serviced in spring."
	write("claude/-w-harbour/s1.jsonl", `{"type":"user","uuid":"1","sessionId":"s1","cwd":"/w/harbour","timestamp":"2020-03-01T08:30:00Z","message":{"content":"`+question+`"}}
{"type":"assistant","uuid":"2","sessionId":"s1","cwd":"/w/harbour","timestamp":"2020-03-01T08:30:05Z","message":{"content":[{"type":"text","text":"`+answer+`"}]}}
{"type":"user","uuid":"3","sessionId":"s1","cwd":"/w/harbour","timestamp":"2020-03-01T08:31:00Z","message":{"content":"thanks"}}
`)
	write("claude/-w-harbour/notes.txt", "no session")
	write("codex/2020/03/01/rollout-1.jsonl", `{"timestamp":"2020-03-01T08:30:00Z","type":"session_meta","payload":{"id":"s2","cwd":"/w"}}
{"timestamp":"2020-03-01T08:30:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"`+question+`"}]}}
{"timestamp":"2020-03-01T08:30:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"`+answer+`"}]}}
`)
	write("gemini/h/chats/session-1.json", `{
 "sessionId": "s3", "projectHash": "h", "messages": [
  {"id": "1", "timestamp": "2020-03-01T08:30:00Z", "type": "user", "content": "`+question+`"},
  {"id": "2", "timestamp": "2020-03-01T08:30:05Z", "type": "gemini", "content": "`+answer+`"}]}`)
	var archive bytes.Buffer
	packed := zip.NewWriter(&archive)
	in, err := packed.Create("conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(in, `[{"title":"Cranes","conversation_id":"g","current_node":"2","mapping":{
 "1":{"message":{"id":"1","author":{"role":"user"},"create_time":1583051400,"content":{"content_type":"text","parts":["%s"]}},"parent":null},
 "2":{"message":{"id":"2","author":{"role":"assistant"},"create_time":1583051405,"content":{"content_type":"text","parts":["%s"]}},"parent":"1"}}}]`, question, answer)
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	write("chatgpt.zip", archive.String())
	write("claude.json", `[{"uuid":"c","name":"Cranes","chat_messages":[
 {"uuid":"1","text":"`+question+`","sender":"human","created_at":"2020-03-01T08:30:00Z"},{"uuid":"2","text":"`+answer+`","sender":"assistant","created_at":"2020-03-01T08:30:05Z"}]}]`)

	for from, x := range map[string]struct{ path, title string }{
		"claude-code": {"claude", ""}, "codex": {"codex", ""}, "gemini": {"gemini", ""}, "chatgpt": {"chatgpt.zip", "Cranes"}, "claude": {"claude.json", "Cranes"},
	} {
		args := []string{"import", filepath.Join(folder, x.path), "--from=" + from, "--namespace=" + from, to}
		if out := must(t, "", args...); !strings.Contains(out, "stored 2") {
			t.Errorf("%s: %s", from, out)
		}
		want := fmt.Sprintf("%s|%s|2020-03-01T08:30:00Z||[conversation]|user\n%[1]s|%[3]s|2020-03-01T08:30:05Z||[conversation]|agent\n", x.title, question, answer)
		if got := stored(t, from, to); sorted(got) != sorted(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", from, got, want)
		}
		if out := must(t, "", args...); !strings.Contains(out, "unchanged 2") {
			t.Errorf("%s again: %s", from, out)
		}
	}
	if got := run("", "import", folder, "--from=chatgpt", to); got.code != 1 || !strings.Contains(got.err, "has no file called conversations*.json") {
		t.Errorf("a folder without an export: %+v", got)
	}
	if got := run("", "import", "--from=mem0", to); got.code != 2 || !strings.Contains(got.err, "name what to import") {
		t.Errorf("nothing named: %+v", got)
	}
}

// Where a namespace was renamed, or moved into another one, an import of the same source finds what it has stored.
func TestImportsFollowTheirNamespace(t *testing.T) {
	to := "--address=" + serve(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"vault/Crane.md": "The harbour crane is serviced in spring.",
		"session.jsonl":  `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"When is the harbour crane serviced?"}}` + "\n",
		"mem0.json":      `{"results": [{"id": 7, "memory": "The harbour crane is serviced in spring."}]}`,
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for from, name := range map[string]string{"markdown": "vault", "claude-code": "session.jsonl", "mem0": "mem0.json"} {
		imported := func(namespace, want string) {
			t.Helper()
			out := must(t, "", "import", filepath.Join(folder, name), "--from="+from, "--namespace="+namespace, to)
			wantContains(t, from+" into "+namespace, out, want)
		}
		imported(from, "stored 1,")
		must(t, "", "namespace", "rename", from, from+"/renamed", to)
		imported(from+"/renamed", "stored 0, unchanged 1")
		must(t, must(t, "", "export", "--namespace="+from+"/renamed", to), "import", "-", "--namespace=all", to)
		imported("all", "stored 0, unchanged 1")
	}
}

// A branch of a session begins with a copy of it, in a file of its own, and may have branches. What was said is stored once.
func TestImportBranches(t *testing.T) {
	to := "--address=" + serve(t)
	folder := t.TempDir()
	turn := func(session, id, text, more string) string {
		return fmt.Sprintf(`{"type":"user","uuid":%q,"sessionId":%q,"timestamp":"2020-03-01T08:30:00Z","message":{"content":%q}%s}`+"\n", id, session, text, more)
	}
	for name, text := range map[string]string{
		"a.jsonl": turn("a", "1", "When is the harbour crane serviced?", ""),
		"b.jsonl": turn("b", "1", "When is the harbour crane serviced?", `,"forkedFrom":{"sessionId":"a","messageUuid":"1"}`) + turn("b", "2", "And when is the pier painted?", ""),
		"c.jsonl": turn("c", "1", "When is the harbour crane serviced?", `,"forkedFrom":{"sessionId":"b","messageUuid":"1"}`),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"stored 2, unchanged 2\n", "stored 0, unchanged 4\n"} {
		if got := must(t, "", "import", folder, "--from=claude-code", to); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What cannot be read is named, and the exit code is 3.
func TestImportNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	const question = `{"type":"user","uuid":"%d","sessionId":"s1","cwd":"/w","message":{"content":"When is the harbour crane serviced?"}}` + "\n"
	const gpt = `[{"title":"Cranes","conversation_id":"g","current_node":"1","mapping":{}}]`
	const claude = `[{"uuid":"c","name":"Cranes","chat_messages":[]}]`
	codex := `{"type":"session_meta","payload":{"id":"s2","cwd":"/w"}}` + "\n"
	summary := `{"type":"summary","summary":"Cranes","leafUuid":"x"}` + "\n"
	for i, x := range []struct {
		from, name, text string
		code             int
		want             []string
	}{
		{"claude-code", "s1.jsonl", fmt.Sprintf(question+"{damaged\n"+question, 1, 2), 3, []string{"stored 2, unchanged 0, skipped 1", "s1.jsonl, line 2: it is not JSON"}},
		{"claude-code", "s1.jsonl", fmt.Sprintf(question, 1) + `{"type":"us`, 0, []string{"stored 1"}},
		{"claude-code", "s1.jsonl", summary, 0, []string{"stored 0"}},
		{"claude-code", "s1.jsonl", "", 0, []string{"stored 0"}},
		{"claude-code", "s1.jsonl", "hello\n", 3, []string{"s1.jsonl: this is no transcript"}},
		{"claude-code", "s1.jsonl", codex, 3, []string{"s1.jsonl: this is a session of another agent", "--from codex"}},
		{"claude-code", "caf\xe9.jsonl", fmt.Sprintf(question, 1), 0, []string{"stored 1"}},
		{"claude", "conversations.json", gpt, 3, []string{"conversations.json, conversation 1: it is no conversation of claude.ai", "--from chatgpt"}},
		{"chatgpt", "conversations.json", claude, 3, []string{"conversations.json, conversation 1: it is no conversation of ChatGPT", "--from claude"}},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "caf\xe9", x.name)
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run("", "import", folder, "--from="+x.from, fmt.Sprintf("--namespace=n%d", i), to)
		if got.code != x.code {
			t.Errorf("%q: exit code %d, want %d: %s", x.text, got.code, x.code, got.err)
		}
		wantContains(t, fmt.Sprintf("%q", x.text), got.out, x.want...)
	}
}

func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) == 3 && lines[0] > lines[1] {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return strings.Join(lines, "")
}

func TestImportMem0(t *testing.T) {
	to := "--address=" + serve(t)
	folder := t.TempDir()
	export := filepath.Join(folder, "mem0.json")
	if err := os.WriteFile(export, []byte(`{"results":[
 {"id":"a","memory":"Likes tea","user_id":"ada","hash":"x","metadata":{"k":1},"categories":["food"],"created_at":"2025-03-01T08:30:00.123-07:00","updated_at":null},
 {"id":"b","memory":"Lives in Kiel","created_at":"2025-03-02T08:30:00Z","updated_at":"2025-03-03T08:30:00Z"},
 {"id":"c","memory":""}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run("", "import", export, "--from=mem0", "--namespace=json", to)
	if got.code != 3 || !strings.Contains(got.out, "stored 2") || !strings.Contains(got.out, "invalid content") {
		t.Errorf("got %+v", got)
	}
	if out := must(t, "", "export", "--namespace=json", to); !strings.Contains(out, `"user_id":"ada"`) || !strings.Contains(out, `"2025-03-01T15:30:00.123Z"`) || !strings.Contains(out, `"food"`) {
		t.Errorf("got %s", out)
	}

	// Ids may be numbers, and a memory of another shape is skipped alone.
	if err := os.WriteFile(export, []byte("\ufeff"+`[{"id":1,"memory":"Likes tea","user_id":5,"expiration_date":"2030-01-31","metadata":null},{"id":2,"memory":{}},{"id":3,"memory":"Lives in Kiel"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	got = run("", "import", export, "--from=mem0", "--namespace=numbers", to)
	if got.code != 3 || !strings.Contains(got.out, "stored 2") || !strings.Contains(got.out, "not a memory") {
		t.Errorf("numbers: got %+v, want 2 stored and one skipped", got)
	}
	if out := must(t, "", "export", "--namespace=numbers", to); !strings.Contains(out, `"user_id":"5"`) || strings.Count(out, "expires_at") != 1 || !strings.Contains(out, `"expires_at":"2030-02-01T00:00:00Z"`) {
		t.Errorf("numbers: got %s, want the user 5, and an end of the 31st of January", out)
	}
	if err := os.WriteFile(export, []byte(`[{"id":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("", "import", export, "--from=mem0", to); got.code != 1 || !strings.Contains(got.err, "unexpected end of JSON") {
		t.Errorf("a broken file: got %+v, want what is wrong with it", got)
	}

	history := filepath.Join(folder, "history.db")
	db, err := sql.Open("sqlite", history)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)`,
		`INSERT INTO history VALUES ('1','a',NULL,'Likes tea','ADD','2025-03-01T08:30:00Z',NULL,0,NULL,NULL), ('2','b',NULL,'Lives in Kiel','ADD','2025-03-01T08:30:00Z',NULL,0,NULL,NULL),
		 ('3','a','Likes tea','Likes green tea','UPDATE','2025-03-01T08:30:00Z','2025-03-05T08:30:00Z',0,NULL,NULL), ('4','b','Lives in Kiel',NULL,'DELETE','2025-03-01T08:30:00Z','2025-03-05T08:30:00Z',1,NULL,NULL)`,
	} {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "", "import", history, "--from=mem0", "--namespace=history", to); !strings.Contains(out, "stored 1") {
		t.Errorf("got %s", out)
	}
	if got := stored(t, "history", to); got != "|Likes green tea|||[]|<nil>\n" {
		t.Errorf("got %q", got)
	}
}

// What was captured lives for a while; once it is imported, it stays.
func TestImportKeepsWhatWasCaptured(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	path := filepath.Join(m.home, ".claude", "projects", "w", "s1.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"type":"user","uuid":"1","sessionId":"s1","cwd":"/w","message":{"content":"When is the harbour crane serviced?"}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "--address=" + serve(t)
	if out := m.triskele(t, "capture", path, address); !strings.HasPrefix(out, "1 kept") {
		t.Errorf("capture: %s", out)
	}
	if got := stored(t, "default", address); strings.Count(got, "Z|") != 2 {
		t.Errorf("captured: %s", got)
	}
	if out := m.triskele(t, "import", "--from=claude-code", address); !strings.Contains(out, "updated 1") {
		t.Errorf("import: %s", out)
	}
	if got := stored(t, "default", address); strings.Count(got, "\n") != 1 || !strings.Contains(got, "|When is the harbour crane serviced?|||[") {
		t.Errorf("imported: %s", got)
	}
}

// Sessions are read where agents keep them, and from nowhere if that is unknown.
func TestImportFromTheUsualPlace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for path, session := range map[string]string{
		"projects/w/s1.jsonl": `{"type":"user","uuid":"1","sessionId":"s1","cwd":"/w","message":{"content":"When is the harbour crane serviced?"}}`,
		"sessions/2026/rollout-1.jsonl": `{"type":"session_meta","payload":{"id":"s2","cwd":"/w"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"When is the harbour crane sold?"}]}}`,
	} {
		path = filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(session+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := "--address=" + serve(t)
	from := func(agent string, environment map[string]string) (code int, out string) {
		var b bytes.Buffer
		env := cli.Env{Out: &b, Err: &b, Getenv: func(name string) string { return environment[name] }, Now: clock}
		code = cli.Run(t.Context(), []string{"import", "--from=" + agent, address}, env)
		return code, b.String()
	}
	for agent, variable := range map[string]string{"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"} {
		if code, out := from(agent, map[string]string{"HOME": t.TempDir(), variable: folder}); code != 0 || !strings.Contains(out, "stored 1") {
			t.Errorf("%s, a folder that is moved: got %d, %s", agent, code, out)
		}
	}
	if code, out := from("claude-code", nil); code != 1 || !strings.Contains(out, "the home folder is unknown") {
		t.Errorf("no home folder: got %d, %s", code, out)
	}
}

// A folder that is watched is imported again when a note changes.
func TestSync(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	vault := t.TempDir()
	note := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(vault, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	note("crane.md", "The harbour crane is serviced in spring.")
	if out := must(t, "", "sync", vault, to, "--namespace=vault"); out != "stored 1, unchanged 0\n" {
		t.Errorf("once: got %q", out)
	}
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		var errs bytes.Buffer
		code := cli.Run(ctx, []string{"sync", vault, to, "--namespace=vault", "--watch"}, cli.Env{Out: writer, Err: &errs, Getenv: func(string) string { return "" }, Now: clock})
		_ = writer.CloseWithError(fmt.Errorf("sync ended: %s", errs.String()))
		ended <- code
	}()
	lines := bufio.NewReader(reader)
	next := func(when, want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%s: got %q, %v; want %q", when, line, err, want)
		}
	}
	next("at the start", "stored 0, unchanged 1\n")
	note("lift.md", "The lift is serviced in autumn.")
	next("a new note", "stored 1, unchanged 1\n")
	note("crane.md", "The harbour crane is serviced in winter.")
	next("a changed note", "stored 0, unchanged 1, updated 1\n")
	if got := stored(t, "vault", to); !strings.Contains(got, "crane is serviced in winter.") || !strings.Contains(got, "The lift") || strings.Contains(got, "spring") {
		t.Errorf("got %s", got)
	}
	if err := os.Remove(filepath.Join(vault, "lift.md")); err != nil {
		t.Fatal(err)
	}
	next("a note that is gone", "stored 0, unchanged 1, forgotten 1\n")
	note("bad.md", "bad \xff")
	next("a note that cannot be read", "stored 0, unchanged 1, skipped 1\n")
	next("why", "skipped: not UTF-8, once\n")
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "  bad.md") {
		t.Fatalf("the place: got %q, %v", line, err)
	}
	for _, name := range []string{"bad.md", "crane.md"} {
		if err := os.Remove(filepath.Join(vault, name)); err != nil {
			t.Fatal(err)
		}
	}
	next("no note", "stored 0, unchanged 0, skipped 1\n")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if got := run("", "sync", filepath.Join(vault, "typo"), "--watch"); got.code != 1 || !strings.Contains(got.err, "no such file") {
		t.Errorf("a folder that is not there: %+v", got)
	}
}
