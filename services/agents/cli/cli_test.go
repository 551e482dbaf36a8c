package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
	"github.com/triskele/triskele/services/agents/cli"
	"github.com/triskele/triskele/services/agents/internal/home"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") { // a test runs this program: see program
		os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Started: time.Now()}))
	}
	_ = os.Setenv("TRISKELE_ADMIN", "127.0.0.1:0") // other tests run beside
	_ = os.Setenv("TRISKELE_CONFIG", "off")        // a developer may have one
	os.Exit(m.Run())
}

// serve starts all services on a temporary file and returns the gateway's address.
func serve(t *testing.T) string { return serveWith(t, standalone.Config{}) }

// serveWith does so with more of a configuration.
func serveWith(t *testing.T, config standalone.Config) string {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	stage := config.Gateway.Rerank
	config.SQLite, config.Embedder, config.Gateway = cmp.Or(config.SQLite, filepath.Join(t.TempDir(), "test.db")), embed.NewHashed(), gateway.DefaultConfig()
	config.Gateway.Rerank = stage
	system, err := standalone.Start(context.Background(), config, process, storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("fuser"), storetest.Log())
	system.Register(server)
	go func() { _ = system.Serve(server, listener) }()
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

type outcome struct {
	code     int
	out, err string
}

// budget keeps a busy machine from changing an answer.
const budget = "--budget=8s"

var clock = time.Now

// run executes a command line with the given standard input.
func run(in string, args ...string) outcome {
	return runAt(clock(), in, args...)
}

func runAt(now time.Time, in string, args ...string) outcome {
	return runUntil(context.Background(), now, in, args...)
}

func runUntil(ctx context.Context, now time.Time, in string, args ...string) outcome {
	var out, errs bytes.Buffer
	code := cli.Run(ctx, args, cli.Env{
		In: strings.NewReader(in), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: func() time.Time { return now },
	})
	return outcome{code, out.String(), errs.String()}
}

// must runs a command that has to succeed and returns what it printed.
func must(t *testing.T, in string, args ...string) string {
	t.Helper()
	got := run(in, args...)
	if got.code != 0 || got.err != "" {
		t.Fatalf("%q: exit code %d, errors %q", args, got.code, got.err)
	}
	return got.out
}

func wantContains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

func TestRememberedIsRecalled(t *testing.T) {
	to := "--address=" + serve(t)
	out := must(t, "", "remember", "The harbour crane is serviced every spring.", "--title=Crane", "--tag=harbour,crane", "--importance=0.9", to)
	id := strings.TrimSpace(strings.TrimPrefix(out, "remembered "))
	must(t, "Tomatoes want water before seven.\n", "remember", "-", to)

	wantContains(t, "recall", must(t, "", "recall", "when is the crane serviced", budget, to), "Crane: The harbour crane is serviced every spring.", id, "0.90", "lexical 1")
	wantContains(t, "recall by standard input", must(t, "crane serviced\n", "recall", "-", budget, to), id)
	wantContains(t, "explain", must(t, "", "recall", "crane", "--explain", budget, to), "lexical   +", "  bm25 ", "odds      ", "the word “Crane”", "of 7.95 s")
	wantContains(t, "rank fusion", must(t, "", "recall", "crane", "--explain", "--fusion=rrf", budget, to), "lexical  1.00 / (2 + 1)   × 0.970 = 0.32333  bm25 ", "sum")
	wantContains(t, "convex", must(t, "", "recall", "crane", "--explain", "--fusion=convex", "--alpha=0.5", budget, to), "0.50 × 1.0000")
	wantContains(t, "the contract's name", must(t, "", "recall", "crane", "--fusion=FUSION_METHOD_CONVEX", "--alpha=0.5", "--json", budget, to), `"FUSION_METHOD_CONVEX"`)
	if out := must(t, "", "recall", "crane", "--no-leg=dense,graph", "--tag=harbour", budget, to); strings.Contains(out, "Tomatoes") {
		t.Errorf("a memory without the tag was recalled:\n%s", out)
	}
	wantContains(t, "an empty recall", must(t, "", "recall", "zeppelin", "--no-leg=dense", budget, to), "nothing found\n")
	wantContains(t, "ids only", must(t, "", "recall", "crane", "--ids-only", budget, to), id)
}

// TestRecallIsReread: by the reranker in the gateway, unless the command says no.
func TestRecallIsReread(t *testing.T) {
	to := "--address=" + serveWith(t, standalone.Config{Gateway: gateway.Config{Rerank: rerank.Default()}})
	must(t, "", "remember", "The harbour crane is serviced every spring.", to)
	wantContains(t, "recall", must(t, "", "recall", "when is the crane serviced", "--json", budget, to), "builtin/cross-en-v1")
	if out := must(t, "", "recall", "when is the crane serviced", "--no-rerank", "--json", budget, to); strings.Contains(out, "cross-en") {
		t.Errorf("--no-rerank: %s", out)
	}
}

func TestRecallForAPrompt(t *testing.T) {
	to := "--address=" + serve(t)
	for i := range 30 {
		must(t, "", "remember", fmt.Sprintf("Crane %d stands on pier %d and is serviced in spring, by %s.", i, 30-i, strings.Repeat(string(rune('a'+i%26)), 3)), to)
	}
	must(t, "", "remember", "Crane 7 stands on pier 23, and is serviced in spring by hhh!", to)
	out := must(t, "", "recall", "which crane is serviced in spring", "--max-tokens=150", budget, to)
	wantContains(t, "a prompt's text", out, "<memories>\n", "> Crane ", "</memories>\n")
	if n := briefing.Tokens(out); n > 150 || n < 100 {
		t.Errorf("%d tokens", n)
	}
	if strings.Contains(out, "pier 23 ") && strings.Contains(out, "pier 23,") {
		t.Errorf("a duplicate:\n%s", out)
	}
	resp := &triskelev1.RecallResponse{}
	if err := protojson.Unmarshal([]byte(must(t, "", "recall", "which crane is serviced in spring", "--max-tokens=150", "--json", budget, to)), resp); err != nil || len(resp.GetHits()) != strings.Count(out, "\n> ") {
		t.Errorf("%d hits as JSON, %d as text: %v", len(resp.GetHits()), strings.Count(out, "\n> "), err)
	}
	if got := run("", "recall", "x", "--max-tokens=10", "--ids-only", to); got.code != 2 {
		t.Errorf("--ids-only with --max-tokens: %+v", got)
	}
	if got := run("", "recall", "which crane is serviced in spring", "--max-tokens=20", budget, to); got.code != 1 || !strings.Contains(got.err, "fits into --max-tokens 20") {
		t.Errorf("less than a memory needs: %+v", got)
	}
	if got := run("", "recall", "crane", "--budget=1us", to); got.code != 1 || !strings.Contains(got.err, "budget: 1µs is too little") {
		t.Errorf("a budget that is too short: %+v", got)
	}
}

func TestJSONParses(t *testing.T) {
	to := "--address=" + serve(t)
	stored := &triskelev1.RememberResponse{}
	if err := protojson.Unmarshal([]byte(must(t, "", "remember", "a crane", "--json", to)), stored); err != nil || !stored.GetStored() {
		t.Fatalf("remember: %v, %v", stored, err)
	}
	resp := &triskelev1.RecallResponse{}
	if err := protojson.Unmarshal([]byte(must(t, "", "recall", "crane", "--json", "--trace", budget, to)), resp); err != nil {
		t.Fatal(err)
	}
	if len(resp.GetHits()) != 1 || resp.GetHits()[0].GetMemory().GetContent() != "a crane" || len(resp.GetSpans()) == 0 {
		t.Errorf("recall: %v", resp)
	}
	if len(resp.GetHits()[0].GetContributions()) != 0 {
		t.Error("contributions were not asked for")
	}
	got := &triskelev1.GetResponse{}
	if err := protojson.Unmarshal([]byte(must(t, "", "get", stored.GetMemory().GetId(), "--json", to)), got); err != nil || len(got.GetMemories()) != 1 {
		t.Errorf("get: %v, %v", got, err)
	}
	m := &triskelev1.Memory{}
	if err := protojson.Unmarshal([]byte(must(t, "", "list", "--json", to)), m); err != nil || m.GetId() != stored.GetMemory().GetId() {
		t.Errorf("list: %v, %v", m, err)
	}
}

func TestRecordCommands(t *testing.T) {
	to := "--address=" + serve(t)
	id := strings.TrimSpace(strings.TrimPrefix(must(t, "", "remember", "tea at four", "--idempotency-key=tea", to), "remembered "))
	wantContains(t, "a repeated remember", must(t, "", "remember", "tea at four", "--idempotency-key=tea", to), "remembered before as "+id)
	wantContains(t, "update", must(t, "", "update", id, "--title=Tea", "--tag=habit", "--no-sensitive", to), "now revision 2")
	wantContains(t, "get", must(t, "", "get", id, to), "title          Tea\n", "content        tea at four\n", "tags           habit\n")
	must(t, "", "update", id, "--clear=tags", "--revision=2", to)
	must(t, "", "update", id, "--thread=drinks", to)
	must(t, "", "update", id, "--position=3", to)
	if got := run("", "update", id, "--content=x", "--revision=2", to); got.code != 1 || !strings.Contains(got.err, "expected_revision") {
		t.Errorf("update of an old revision: %+v", got)
	}
	out := must(t, "", "supersede", id, "tea at five", to)
	newer := strings.TrimSuffix(strings.Fields(out)[1], ",")
	wantContains(t, "supersede", out, "which supersedes "+id)
	if out := must(t, "", "list", to); strings.Contains(out, id) || !strings.Contains(out, newer) {
		t.Errorf("list:\n%s", out)
	}
	wantContains(t, "list", must(t, "", "list", "--include-superseded", "--limit=0", to), id, newer, "superseded")
	if got := run("", "get", newer, "00000000-0000-4000-8000-000000000000", "--json", to); got.code != 1 || !strings.Contains(got.out, newer) || !strings.Contains(got.err, "no memory 00000000-0000-4000-8000-000000000000") {
		t.Errorf("get as JSON: %+v", got)
	}
	if got := run("", "get", newer, "00000000-0000-4000-8000-000000000000", to); got.code != 1 || !strings.Contains(got.out, newer) ||
		!strings.Contains(got.err, "no memory 00000000-0000-4000-8000-000000000000 in namespace default") {
		t.Errorf("get of an unknown id: %+v", got)
	}
	wantContains(t, "forget", must(t, "", "forget", id, newer, to), "forgot 2 memories")
	wantContains(t, "list", must(t, "", "list", to), "nothing found")
}

func TestAgesCountFromNow(t *testing.T) {
	to := "--address=" + serve(t)
	must(t, "", "remember", "tea", to)
	later := clock().Add(30 * 24 * time.Hour)
	for flag, found := range map[string]bool{"--since=7d": false, "--since=8w": true, "--before=7d": true, "--since=2020-01-01": true, "--before=2020-01-01T00:00:00Z": false} {
		if got := runAt(later, "", "list", flag, to); strings.Contains(got.out, "tea") != found || got.code != 0 {
			t.Errorf("list %s: %+v", flag, got)
		}
	}
}

func TestExportedIsImportedEqual(t *testing.T) {
	first, second := "--address="+serve(t), "--address="+serve(t)
	var in strings.Builder
	for i := range 450 { // more than two batches
		fmt.Fprintf(&in, `{"content": "note %d about piers", "title": "Nöte", "tags": ["a", "b"], "importance": 0.%d, "metadata": {"n": %d, "deep": [1, null, {"x": true}]}, "occurred_at": "2025-03-01T10:00:00.123456Z", "sensitive": %t}`+"\n\n", i, i%10, i, i%7 == 0)
	}
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContains(t, "import", must(t, "", "import", file, "--namespace=piers/a", "--wait", first), "stored 450, unchanged 0\nindexed\n")
	wantContains(t, "the same import again", must(t, "", "import", file, "--namespace=piers/a", first), "stored 0, unchanged 450\n")
	id := strings.Fields(must(t, "", "list", "--limit=1", "--namespace=piers/a", first))[1]
	must(t, "", "supersede", id, "a newer note", "--namespace=piers/a", first)

	exported := must(t, "", "export", "--namespace=piers/a", first)
	if lines := strings.Count(exported, "\n"); lines != 451 {
		t.Fatalf("%d lines were exported", lines)
	}
	wantContains(t, "import of an export", must(t, exported, "import", "-", second), "stored 451, unchanged 0\n")
	copied := filepath.Join(t.TempDir(), "out.jsonl")
	if got := must(t, "", "export", "--namespace=piers/a", "-o", "-", first); got != exported {
		t.Errorf("to standard output: got %q, want %q", got, exported)
	}
	must(t, "", "export", "--namespace=piers/a", "--output="+copied, second)
	again, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != exported {
		t.Error("an export of what was imported differs from what was exported")
	}
	wantContains(t, "import of an export where it came from", must(t, exported, "import", "-", first), "stored 0, unchanged 451\n")
	if got := run("", "export", "--namespace=nowhere", "--output="+copied, first); got.code != 1 || !strings.Contains(got.err, `"nowhere" is unknown`) {
		t.Errorf("export of an unknown namespace: %+v", got)
	}
	if kept, err := os.ReadFile(copied); err != nil || string(kept) != exported {
		t.Error("a failed export changed the file")
	}
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(copied, link); err != nil {
		t.Fatal(err)
	}
	must(t, "", "export", "--output="+link, "--namespace=piers/a", first)
	if kind, err := os.Lstat(link); err != nil || kind.Mode().Type() != os.ModeSymlink {
		t.Errorf("an export to a link made of it: %v, %v", kind.Mode(), err)
	}
	later := filepath.Join(t.TempDir(), "later.jsonl")
	if err := os.Symlink("target.jsonl", later); err != nil {
		t.Fatal(err)
	}
	must(t, "", "export", "--output="+later, "--namespace=piers/a", first)
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(later), "target.jsonl")); err != nil || string(text) != exported {
		t.Errorf("an export to a link without a target: %d bytes, %v", len(text), err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	through := make(chan []byte, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		through <- text
	}()
	must(t, "", "export", "--output="+pipe, "--namespace=piers/a", first)
	if kind, err := os.Lstat(pipe); err != nil || kind.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("an export to a pipe made of it: %v, %v", kind.Mode(), err)
	}
	if text := <-through; string(text) != exported {
		t.Errorf("an export to a pipe gave %d bytes, want %d", len(text), len(exported))
	}
	reader, numbered, err := os.Pipe() // as a shell gives it for >(command)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		text, _ := io.ReadAll(reader)
		through <- text
	}()
	must(t, "", "export", fmt.Sprintf("--output=/dev/fd/%d", numbered.Fd()), "--namespace=piers/a", first)
	if err := numbered.Close(); err != nil {
		t.Fatal(err)
	}
	if text := <-through; string(text) != exported {
		t.Errorf("an export to a pipe by its number gave %d bytes, want %d", len(text), len(exported))
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- runUntil(ctx, clock(), "", "export", "--output="+pipe, "--namespace=piers/a", first) }()
	time.AfterFunc(300*time.Millisecond, interrupt) // while it waits for a reader
	select {
	case got := <-ended:
		if got.code != 1 || !strings.Contains(got.err, "interrupted") {
			t.Errorf("an export to a pipe that nobody reads: %+v", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("an export to a pipe that nobody reads does not end")
	}
}

func TestBadLineIsNamed(t *testing.T) {
	to := "--address=" + serve(t)
	good := strings.Repeat("{\"content\": \"x\"}\n", 3)
	for name, test := range map[string]struct{ line, want string }{
		"syntax":        {`{"content": `, ": not a memory: "},
		"type":          {`{"content": 3}`, ": not a memory: "},
		"unknown field": {`{"contnt": "x"}`, `unknown field "contnt"`},
		"bound":         {`{"content": "x", "importance": 1.5}`, "importance: must be greater than or equal to 0"},
		"undeclarable":  {`{"content": "x", "metadata": {"k": "` + strings.Repeat("x", 20<<10) + `"}}`, "metadata: must be at most 16384 bytes"},
		"conflict":      {`{"content": "other", "idempotency_key": "taken"}`, "idempotency_key belongs to memory"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := "--namespace=" + strings.ReplaceAll(name, " ", "-")
			file := filepath.Join(t.TempDir(), "notes.jsonl")
			content := `{"content": "y", "idempotency_key": "taken"}` + "\n\n" + good + test.line + "\n" + `{"content": "after"}` + "\n"
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			got := run("", "import", file, "--strict", namespace, to)
			if got.code != 1 || !strings.Contains(got.err, file+":6: ") || !strings.Contains(got.err, test.want) {
				t.Errorf("exit code %d, errors %q", got.code, got.err)
			}
			wantContains(t, "strict", got.out, "stored 4, unchanged 0, skipped 1\n")
			if listed := must(t, "", "list", "--json", namespace, to); strings.Count(listed, "\n") != 4 || strings.Contains(listed, "after") {
				t.Errorf("stored:\n%s", listed)
			}
			got = run("", "import", file, namespace, to)
			if got.code != 3 || !strings.Contains(got.err, "1 could not be imported") {
				t.Errorf("exit code %d, errors %q", got.code, got.err)
			}
			wantContains(t, "report", got.out, "stored 1, unchanged 4, skipped 1\n", "  "+file+":6: ", test.want)
			if listed := must(t, "", "list", "--json", namespace, to); strings.Count(listed, "\n") != 5 || !strings.Contains(listed, "after") {
				t.Errorf("stored:\n%s", listed)
			}
			got = run("", "import", file, "--json", namespace, to)
			var written struct {
				Stored, Unchanged, Skipped int
				Problems                   []struct{ Position, Detail string }
			}
			if err := json.Unmarshal([]byte(got.out), &written); err != nil || got.code != 3 || written.Stored != 0 || written.Unchanged != 5 || written.Skipped != 1 ||
				len(written.Problems) != 1 || written.Problems[0].Position != file+":6" || !strings.Contains(written.Problems[0].Detail, strings.TrimPrefix(test.want, ": ")) {
				t.Errorf("%s: %v", got.out, err)
			}
		})
	}
}

// What is written to standard output by its name can be read again: what the command says about it goes elsewhere.
func TestStandardOutputByName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.db")
	to := "--address=" + serveWith(t, standalone.Config{SQLite: file})
	must(t, "", "remember", "The crane is serviced in spring.", to)
	for want, args := range map[string][]string{
		"wrote 1 memory of 1 namespace to": {"backup", "%s", "--sqlite=" + file},
		"\n}\n":                            {"backup", "%s", "--json", "--sqlite=" + file},
		"exported 1 memory to":             {"export", "--output=%s", to},
	} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		for i := range args {
			args[i] = strings.Replace(args[i], "%s", fmt.Sprintf("/dev/fd/%d", out.Fd()), 1)
		}
		code := cli.Run(t.Context(), args, cli.Env{Out: out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now})
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if code != 0 || !strings.HasPrefix(lines[len(lines)-1], "{") || len(lines) > 4 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: got exit code %d, %q and %q, want lines of JSON, and %q on standard error", args, code, text, errs.String(), want)
		}
	}
}

func TestTraceShowsEveryService(t *testing.T) {
	to := "--address=" + serve(t)
	must(t, `{"content": "The crane Heron-2 is serviced in spring.", "title": "Heron-2"}`, "import", "-", "--wait", to)
	out := must(t, "", "recall", "when is heron-2 serviced", "--trace", budget, to)
	services := map[string]bool{}
	_, tree, _ := strings.Cut(out, "\ntrace ")
	for line := range strings.Lines(tree) {
		if fields := strings.Fields(line); len(fields) > 1 {
			services[fields[0]] = true
		}
	}
	// The records' own span may be missing: a server's span ends when its answer is on the way, perhaps after ours.
	for _, service := range []string{"triskele", "fuser", "lexical", "dense", "graph", "store"} {
		if !services[service] {
			t.Errorf("no span of %s:\n%s", service, out)
		}
	}
	wantContains(t, "trace", tree, "search_memory", "MemoryService/Get", "OK, 1 hit, budget 7.95 s", "━")
}

func TestWrongUsageExitsWith2(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"}, {"sync", ""}, {"recall"}, {"recall", "x", "--sort=size"}, {"recall", "x", "--since=yesterday"}, {"recall", "x", "--nope"},
		{"recall", "x", "--k=10", "--fusion=convex"}, {"recall", "x", "--alpha=0.5"}, {"recall", "x", "--budget=0s"}, {"recall", "x", "--limit=many"},
		{"remember"}, {"remember", "x", "--importance=high"}, {"update", "id"}, {"update", "id", "--clear=title", "--title=x"}, {"update", "id", "--clear=thread", "--thread=x"},
		{"update", "id", "--clear=content"}, {"up", "--store=mysql"}, {"up", "--store=postgres", "--postgres="}, {"migrate"},
		{"up", "--curator-model=x"}, {"up", "--extractor-batch=2"}, {"up", "--tls-clients=x"}, {"up", "--audit=-"}, {"up", "--oidc-audience=x"}, {"up", "--reranker-key-file"}, {"up", "--no-http", "--http-allow-origin=https://app.example.com"},
		{"up", "--sweep-every=0s", "--sweep-after=1h"}, {"up", "--sweep-every=-1s"}, {"up", "--trace-slow=-1s"},
		{"migrate", "up", "--sqlite=a", "--postgres=b"}, {"eval", "--data=x"}, {"eval", "--data=x", "--out=y", "--store=postgres", "--postgres="},
	} {
		got := run("", args...)
		if got.code != 2 || !strings.HasPrefix(got.err, "error: ") || !strings.Contains(got.err, "--help") || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
	wantContains(t, "help", must(t, "", "--help"), "2  Wrong usage", "remember")
	wantContains(t, "help without a command", must(t, ""), "Usage: triskele")
	if must(t, "", "version") != must(t, "", "--version") {
		t.Error("version and --version differ")
	}
}

func TestErrorsOfTheGateway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	_ = listener.Close()
	for _, args := range [][]string{{"recall", "x"}, {"remember", "x"}, {"list"}, {"export"}, {"import", "-"}} {
		got := run(`{"content": "x"}`, append(args, "--address="+gone)...)
		if got.code != 1 || !strings.Contains(got.err, "error: no gateway answers at "+gone+": start one with `triskele up`") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"recall", "x"}, {"mcp"}, {"connect", "zed"}} {
		got := run("", append(args, "--address=http://"+gone)...)
		if upper := run("", append(args, "--address=HTTP://"+gone)...); upper.code != 2 {
			t.Errorf("%q, HTTP in capitals: %+v", args, upper)
		}
		if got.code != 2 || !strings.Contains(got.err, "--address must be HOST:PORT, without http://") {
			t.Errorf("%q: %+v, want what the address must be", args, got)
		}
	}
	to := "--address=" + serve(t)
	got := run("", "recall", "", "--limit=0", "--namespace=Bad Name", to)
	wantContains(t, "a refused recall", got.err, "error: query: must be given unless a vector is (and 2 more)\n", "\n  namespaces[0]: ", "\n  limit: must be")
	if got.code != 2 || strings.Contains(got.err, "rpc error") {
		t.Errorf("a refused recall: %+v", got)
	}
	if got := run("", "recall", "x", "--require=sight", to); got.code != 2 || !strings.Contains(got.err, "required_legs[0]: must be one of: lexical, dense, graph") {
		t.Errorf("an unknown leg: %+v", got)
	}
}

func TestUp(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new")
	folder, err := home.Home{GOOS: runtime.GOOS, Getenv: func(string) string { return data }}.Data("triskele")
	if err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(folder, "triskele.db")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		var errs bytes.Buffer
		code := cli.Run(ctx, []string{"up", "--listen=127.0.0.1:0", "--store=sqlite"}, cli.Env{
			Out: writer, Err: &errs, Getenv: func(string) string { return data }, Now: clock,
		})
		_ = writer.CloseWithError(fmt.Errorf("up ended: %s", errs.String()))
		ended <- code
	}()
	welcome := make([]byte, 4<<10)
	n, err := reader.Read(welcome) // written at once
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, "welcome", string(welcome[:n]), "listens on 127.0.0.1:", database, "triskele recall", "A page for operators is on http://127.0.0.1:")
	address := strings.TrimSuffix(strings.Fields(string(welcome[:n]))[4], ";")
	must(t, "", "remember", "tea", "--address="+address)
	for path, want := range map[string]os.FileMode{database: 0o600, filepath.Dir(database): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s: %v, %v", path, info.Mode(), err)
		}
	}
	if got := run("", "up", "--listen="+address, "--store=sqlite", "--sqlite="+database); got.code != 1 || !strings.Contains(got.err, address+" is in use already") {
		t.Errorf("a second up: %+v", got)
	}
	stop()
	if rest, _ := io.ReadAll(reader); string(rest) != "stopping\n" {
		t.Errorf("at the end: %q", rest)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestUpRefuses values that are wrong only together, or where they are used.
func TestUpRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"--listen=0.0.0.0:0": "--allow-remote", "--k=5000": "k 5000 must be from 0 to 1000", "--tls-cert=x": "belong together", "--embedder=x": "is unknown",
		"--reranker=cohere:x": "CO_API_KEY", "--curator-url=http://127.0.0.1": "the curator's model has no name",
	} {
		got := run("", "up", "--listen=127.0.0.1:0", "--admin=off", flag, "--store=sqlite", "--sqlite="+filepath.Join(t.TempDir(), "x.db"))
		if got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: got %+v, want exit code 2 and %q", flag, got, want)
		}
	}
}

func TestMigrate(t *testing.T) {
	database := "--sqlite=" + filepath.Join(t.TempDir(), "m.db")
	if got := run("", "migrate", "status", "--store=sqlite", database); got.code != 1 || !strings.Contains(got.err, "no database exists at") {
		t.Errorf("status of nothing: %+v", got)
	}
	empty := "--sqlite=" + filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(strings.TrimPrefix(empty, "--sqlite="), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"queue", "list"}, {"queue", "retry"}, {"curation", "off"}} {
		if got := run("", append(args, empty)...); got.code != 1 || !strings.Contains(got.err, "run `triskele migrate up`") {
			t.Errorf("%q of a database without tables: %+v", args, got)
		}
	}
	wantContains(t, "migrate up", must(t, "", "migrate", "up", "--store=sqlite", database), "applied memory 302_", "applied graph 302_")
	wantContains(t, "migrate up again", must(t, "", "migrate", "up", "--store=sqlite", database), "nothing to do")
	out := must(t, "", "migrate", "status", "--store=sqlite", database)
	if !strings.Contains(out, "applied  memory") || strings.Contains(out, "missing") {
		t.Errorf("status:\n%s", out)
	}
}

func TestDoctor(t *testing.T) {
	to := "--address=" + serve(t)
	wantContains(t, "doctor of an empty namespace", must(t, "", "doctor", "--namespace=elsewhere", to), "ok    gateway", "warn  memories       namespace elsewhere is empty", "ok    dense index")
	must(t, `{"content": "tea", "title": "Tea"}`, "import", "-", "--wait", to)
	out := must(t, "", "doctor", to, "--store=postgres", "--postgres="+pgtest.New(t))
	wantContains(t, "doctor", out, "ok    memories       1 memory in namespace default", "ok    lexical leg", "pgvector", "ok    schema", "ok    versions", "ok    clock", "ok    index health", "ok    budgets")
	if strings.Contains(out, "fail") || strings.Contains(out, "warn") {
		t.Errorf("doctor:\n%s", out)
	}
	for line := range strings.Lines(out + run("", "doctor", "--address=127.0.0.1:1", "--sqlite="+filepath.Join(t.TempDir(), strings.Repeat("none", 40)+".db")).out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("got a line of %d columns, want at most 80: %s", n, line)
		}
	}
	var findings []struct{ Check, Verdict, Detail string }
	got := run("", "doctor", "--json", "--address=127.0.0.1:1", "--store=sqlite", "--sqlite="+filepath.Join(t.TempDir(), "none.db"))
	if err := json.Unmarshal([]byte(got.out), &findings); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, f := range findings {
		if f.Verdict == "fail" {
			failed++
		}
	}
	if got.code != 1 || failed != 2 || !strings.Contains(got.err, "failed checks: gateway, database") {
		t.Errorf("doctor of nothing: %+v", got)
	}
	file := "--sqlite=" + filepath.Join(t.TempDir(), "m.db")
	must(t, "", "migrate", "up", file)
	got = run("", "doctor", file, "--timeout=1ns", "--address=127.0.0.1:1")
	wantContains(t, "doctor in a hurry", got.out, "fail  database       no answer within 1ns; --timeout allows more")
}

func TestTextOfOthersCannotSteerTheTerminal(t *testing.T) {
	to := "--address=" + serve(t)
	id := strings.TrimSpace(strings.TrimPrefix(must(t, "", "remember", "red \x1b[31m alert \u202e reversed \u009b2J", "--title=\x1b]0;t\x07itle", to), "remembered "))
	for _, args := range [][]string{{"recall", "alert", budget}, {"list"}, {"get", id}} {
		out := must(t, "", append(args, to)...)
		if strings.ContainsAny(out, "\x1b\x07\u009b\u202e") || !slices.Contains(strings.Fields(out), "alert") {
			t.Errorf("%q printed %q", args, out)
		}
	}
}

func TestEval(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"corpus.jsonl":  `{"_id": "d1", "title": "Crane", "text": "The crane is serviced in spring.", "metadata": {"scope": "s"}}` + "\n" + `{"_id": "d2", "title": "", "text": "Tea at four.", "metadata": {"scope": "s"}}`,
		"queries.jsonl": `{"_id": "q1", "text": "when is the crane serviced", "metadata": {"scope": "s", "category": "c"}}`,
		"qrels.tsv":     "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
	} {
		if err := os.MkdirAll(filepath.Join(data, "tiny"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "tiny", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := run("", "eval", "--data="+data, "--sets=tiny", "--out="+out, "--configs=D-lexical", "--limit=5")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	wantContains(t, "eval", got.out, "tiny", "D-lexical", "report.md", "triskele eval --data DATA --store sqlite --out OUT")
	if _, err := os.Stat(filepath.Join(out, "runs", "tiny", "D-lexical.trec")); err != nil {
		t.Error(err)
	}
	if got := run("", "eval", "--data="+data, "--out="+out, "--configs=Z"); got.code != 1 || !strings.Contains(got.err, "A-all") {
		t.Errorf("an unknown configuration: %+v", got)
	}
}
