package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	"github.com/triskele/triskele/services/agents/briefing"
	"github.com/triskele/triskele/services/agents/mcpserver"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var usual = mcpserver.Config{Namespace: "home", MaxTokens: 1500, Budget: 8 * time.Second, Timeout: 30 * time.Second}

// agent is a client of a server over a fresh database.
type agent struct {
	*mcp.ClientSession
	t        *testing.T
	system   *standalone.System
	readings *readings
}

// readings is a reranker that counts what it reads, and changes no order.
type readings struct{ atomic.Int64 }

func (r *readings) Rerank(_ context.Context, _ string, texts []string) ([]float64, error) {
	r.Add(int64(len(texts)))
	return make([]float64, len(texts)), nil
}

func connect(t *testing.T, config mcpserver.Config) *agent {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	readings := &readings{}
	local := gateway.DefaultConfig()
	local.Rerank = gateway.RerankConfig{Reranker: readings, Top: 10, Limit: 1, Budget: budget.Leg{Share: 1}, Local: true}
	system, err := standalone.Start(context.Background(), standalone.Config{
		SQLite: filepath.Join(t.TempDir(), "test.db"), Embedder: embed.NewHashed(), Gateway: local,
	}, process, storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = system.Close() })
	return &agent{session(t, system.Conn, config, process.Service("triskele")), t, system, readings}
}

func session(t *testing.T, conn grpc.ClientConnInterface, config mcpserver.Config, tel *telemetry.Service) *mcp.ClientSession {
	t.Helper()
	server := mcpserver.New(conn, config, tel, storetest.Log())
	here, there := mcp.NewInMemoryTransports()
	ctx := context.Background()
	running, err := server.Connect(ctx, there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = running.Wait() })
	return client
}

type args = map[string]any

// call returns the text of an answer, its data, and whether it is an error.
func (a *agent) call(tool string, arguments args) (text string, data args, failed bool) {
	a.t.Helper()
	result, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	if len(result.Content) != 1 {
		a.t.Fatalf("%s: %d contents", tool, len(result.Content))
	}
	if result.StructuredContent != nil {
		raw, err := json.Marshal(result.StructuredContent)
		if err != nil {
			a.t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &data); err != nil {
			a.t.Fatal(err)
		}
	}
	return result.Content[0].(*mcp.TextContent).Text, data, result.IsError
}

// must is call for what has to succeed.
func (a *agent) must(tool string, arguments args) (text string, data args) {
	a.t.Helper()
	text, data, failed := a.call(tool, arguments)
	if failed {
		a.t.Fatalf("%s: %s", tool, text)
	}
	return text, data
}

// TestRecallIsReread: the best memories are read by the reranker in the gateway.
func TestRecallIsReread(t *testing.T) {
	a := connect(t, usual)
	a.must("remember", args{"content": "The crane is serviced in spring."})
	a.must("remember", args{"content": "The crane stands at the old pier."})
	if a.must("recall", args{"query": "crane"}); a.readings.Load() != 2 {
		t.Errorf("%d memories were read, want 2", a.readings.Load())
	}
}

func want(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

func memories(data args) (out []args) {
	for _, m := range data["memories"].([]any) {
		out = append(out, m.(args))
	}
	return out
}

func TestLifeOfAMemory(t *testing.T) {
	a := connect(t, usual)
	text, data := a.must("recall", args{"query": "when are deploys frozen"})
	if want(t, "recall before anything is stored", text, "Nothing is remembered yet."); len(memories(data)) != 0 {
		t.Errorf("found %v", data)
	}
	text, _ = a.must("list", nil)
	want(t, "list before anything is stored", text, "Nothing found.")
	_, stored := a.must("remember", args{"content": "Deploys are frozen from Thursday noon.", "title": "Deploy freeze", "tags": []string{"release"}, "occurred_at": "2026-03-01", "idempotency_key": "freeze"})
	id := stored["id"].(string)
	again, data := a.must("remember", args{"content": "Deploys are frozen from Thursday noon.", "title": "Deploy freeze", "tags": []string{"release"}, "occurred_at": "2026-03-01", "idempotency_key": "freeze"})
	if data["stored"] != false || !strings.Contains(again, "nothing stored") {
		t.Errorf("stored twice: %s", again)
	}

	text, data = a.must("recall", args{"query": "when are deploys frozen"})
	want(t, "recall", text, "<memories>", "1. Deploy freeze (2026-03-01, id "+id, "found by ", "lexical", "> Deploys are frozen from Thursday noon.\n")
	if found := memories(data); len(found) != 1 || found[0]["id"] != id || found[0]["occurred_at"] != "2026-03-01T00:00:00Z" || found[0]["score"].(float64) <= 0 || !slices.Contains(found[0]["found_by"].([]any), any("lexical")) {
		t.Errorf("recall as data: %v", data)
	}

	text, _ = a.must("update", args{"id": id, "content": "Deploys are frozen from Thursday 14:00.", "expected_revision": 1})
	want(t, "update", text, "revision 2")
	_, data = a.must("supersede", args{"id": id, "content": "Deploys are never frozen."})
	newer := data["id"].(string)
	text, _ = a.must("recall", args{"query": "when are deploys frozen"})
	if strings.Contains(text, id) {
		t.Errorf("what was superseded is recalled:\n%s", text)
	}
	text, _ = a.must("recall", args{"query": "when are deploys frozen", "include_superseded": true})
	want(t, "recall of all", text, id, newer, "14:00")

	text, data = a.must("list", args{"include_superseded": true})
	want(t, "list", text, id, "superseded by "+newer)
	if len(memories(data)) != 2 {
		t.Errorf("list: %v", data)
	}
	text, _ = a.must("list", args{"ids": []string{newer, "00000000-0000-4000-8000-000000000000"}})
	want(t, "list of ids", text, "Deploys are never frozen.", "1 of the ids do not exist")

	text, _ = a.must("forget", args{"ids": []string{id, newer}})
	want(t, "forget", text, "Forgot 2 of 2")
	text, _ = a.must("recall", args{"query": "when are deploys frozen"})
	want(t, "recall of nothing", text, "Nothing is remembered about that.")
	text, _ = a.must("list", nil)
	want(t, "list of nothing", text, "Nothing found.")
}

func TestListPages(t *testing.T) {
	a := connect(t, usual)
	for _, content := range []string{"tea at four", "coffee at five", strings.Repeat("a long text about piers ", 100)} {
		a.must("remember", args{"content": content})
	}
	text, data := a.must("list", args{"limit": 2})
	token, _ := data["next_page_token"].(string)
	want(t, "first page", text, "call list again with page_token "+token, "coffee", " …\n")
	if m := memories(data)[0]; m["shortened"] != true || len(m["content"].(string)) > 600 {
		t.Errorf("a long memory in full: %v", m)
	}
	text, data = a.must("list", args{"limit": 2, "page_token": token})
	want(t, "second page", text, "tea at four")
	if data["next_page_token"] != nil {
		t.Errorf("there is no third page: %v", data)
	}
}

// The data is as safe to show as the text.
func TestDataIsClean(t *testing.T) {
	t.Parallel()
	a := connect(t, usual)
	const bad, good = "x\U000E006F\u3164 </memories>", "x ‹/memories>"
	a.must("remember", args{"content": "The crane " + bad, "title": bad, "source": bad, "tags": []string{bad}, "thread": bad})
	for tool, arguments := range map[string]args{"list": {}, "recall": {"query": "crane"}} {
		_, data := a.must(tool, arguments)
		found := memories(data)
		if len(found) != 1 {
			t.Fatalf("%s: %d memories, want 1", tool, len(found))
		}
		want := map[string]any{"content": "The crane " + good, "title": good, "source": good, "tags": []any{good}, "thread": good}
		for field, want := range want {
			if got := found[0][field]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %+q, want %+q", tool, field, got, want)
			}
		}
	}
}

func TestRecallKeepsToItsTokens(t *testing.T) {
	a := connect(t, usual)
	for i := range 20 {
		a.must("remember", args{"content": "Pier " + strings.Repeat(string(rune('a'+i)), 4) + " was built by " + strings.Repeat(string(rune('z'-i)), 5) + " and repaired since"})
	}
	if err := client.New(a.system.Conn).WaitIndexed(t.Context(), usual.Namespace, nil); err != nil {
		t.Fatal(err)
	}
	text, data := a.must("recall", args{"query": "who built the pier", "limit": 20, "max_tokens": 300})
	want(t, "recall", text, "more found; raise max_tokens")
	if n := briefing.Tokens(text); n > 320 || data["omitted"].(float64) == 0 {
		t.Errorf("%d tokens, %v omitted", n, data["omitted"])
	}
}

func TestRecallSaysWhatIsMissing(t *testing.T) {
	a := connect(t, usual)
	a.must("remember", args{"content": "The crane is serviced in spring.", "sensitive": true})
	if err := a.system.Kill("dense"); err != nil {
		t.Fatal(err)
	}
	text, data := a.must("recall", args{"query": "crane"})
	want(t, "recall", text, "Incomplete: ", "dense", "sensitive")
	if data["degraded"] == nil || memories(data)[0]["sensitive"] != true {
		t.Errorf("recall as data: %v", data)
	}
	text, _ = a.must("recall", args{"query": "zeppelin"})
	want(t, "recall of nothing", text, "Nothing found, but the search was incomplete: ")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	a := connect(t, usual)
	_, stored := a.must("remember", args{"content": "tea at four"})
	id := stored["id"].(string)
	for what, x := range map[string]struct {
		tool      string
		arguments args
		say       []string
	}{
		"an unknown id":          {"update", args{"id": "00000000-0000-4000-8000-000000000000", "title": "x"}, []string{"Use recall or list to find the right id"}},
		"an old revision":        {"update", args{"id": id, "title": "x", "expected_revision": 9}, []string{"read it again"}},
		"nothing to change":      {"update", args{"id": id}, []string{"give at least one field to change", "call again"}},
		"no text":                {"remember", args{"content": ""}, []string{"content", "minLength"}},
		"no arguments":           {"recall", nil, []string{"query"}},
		"another namespace":      {"recall", args{"query": "x", "namespace": "away"}, []string{"namespace"}},
		"too important":          {"remember", args{"content": "x", "importance": 2}, []string{"importance", "maximum"}},
		"too many characters":    {"remember", args{"content": strings.Repeat("ü", 40_000)}, []string{"content", "65536", "call again"}},
		"no time":                {"recall", args{"query": "x", "since": "yesterday"}, []string{"2026-03-01T08:30:00Z"}},
		"what it does not know":  {"recall", args{"query": "x", "colour": "red"}, []string{"colour"}},
		"a token of nobody":      {"list", args{"page_token": "!"}, []string{"page_token", "call again"}},
		"a key that is in use":   {"supersede", args{"id": id, "content": "x", "importance": -1}, []string{"importance"}},
		"an id that is none":     {"forget", args{"ids": []string{"crane"}}, []string{"ids"}},
		"more than can be asked": {"recall", args{"query": "x", "limit": 1000}, []string{"limit", "50"}},
	} {
		text, _, failed := a.call(x.tool, x.arguments)
		if !failed {
			t.Errorf("%s is accepted: %s", what, text)
		}
		want(t, what, text, x.say...)
		if strings.Contains(text, "rpc error") {
			t.Errorf("%s: %s", what, text)
		}
	}
	if err := a.system.Close(); err != nil {
		t.Fatal(err)
	}
	text, _, failed := a.call("recall", args{"query": "x"})
	if !failed || !strings.Contains(text, "Go on without it") {
		t.Errorf("with the gateway gone: %v, %s", failed, text)
	}
}

// An error about an argument names it as the tool's schema does, whatever the gateway calls it.
func TestErrorsNameArguments(t *testing.T) {
	config := usual
	config.AnyNamespace = true
	a := connect(t, config)
	_, stored := a.must("remember", args{"content": "tea at four"})
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	long, never := strings.Repeat("ü", 500), "0001-01-01"
	memory := map[string]any{
		"content": " ", "title": long, "tags": []string{long[:200]}, "category": long[:100], "source": long, "occurred_at": never, "expires_at": "2020-01-01",
		"thread": long, "position": 1, "idempotency_key": long[:200], "namespace": "BAD NS",
	}
	change := map[string]any{
		"id": "crane", "content": " ", "title": long, "tags": []string{long[:200]}, "category": long[:100], "expires_at": never, "namespace": "BAD NS",
	}
	for _, tool := range tools.Tools {
		known := tool.InputSchema.(args)["properties"].(args)
		bad := map[string]struct{ good, bad args }{
			"remember":  {args{"content": "x"}, memory},
			"supersede": {args{"id": stored["id"], "content": "x"}, memory},
			"update":    {args{"id": stored["id"]}, change},
			"forget":    {args{"ids": []string{stored["id"].(string)}}, args{"ids": []string{"crane"}, "namespace": "BAD NS"}},
			"recall": {args{"query": "x"}, args{
				"query": " ", "tags": []string{long[:200]}, "categories": []string{long[:100]}, "since": never, "before": never, "occurred_since": never,
				"occurred_before": never, "namespace": "BAD NS",
			}},
			"list": {args{}, args{
				"ids": []string{"crane"}, "tags": []string{long[:200]}, "categories": []string{long[:100]}, "since": never, "before": never, "page_token": "!", "namespace": "BAD NS",
			}},
		}[tool.Name]
		for name, value := range bad.bad {
			arguments := maps.Clone(bad.good)
			arguments[name] = value
			text, _, failed := a.call(tool.Name, arguments)
			said, _, _ := strings.Cut(strings.TrimPrefix(text, "not accepted: "), ":")
			said, _, _ = strings.Cut(said, "[")
			if !failed || said != name || known[said] == nil {
				t.Errorf("%s with %s: got %q, want an error that begins with the argument", tool.Name, name, text)
			}
		}
		if len(bad.bad) == 0 {
			t.Errorf("%s is not tried", tool.Name)
		}
	}
	_, err = a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "what_do_we_know", Arguments: map[string]string{"topic": strings.Repeat("x", 40_000)}})
	if err == nil || !strings.Contains(err.Error(), "topic: ") || strings.Contains(err.Error(), "query") {
		t.Errorf("a prompt: %v", err)
	}
	_, err = a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "triskele://memory/crane"})
	if err == nil || !strings.Contains(err.Error(), ": id: ") {
		t.Errorf("a resource: %v", err)
	}
}

func TestAnyNamespace(t *testing.T) {
	config := usual
	config.AnyNamespace = true
	a := connect(t, config)
	a.must("remember", args{"content": "tea at four", "namespace": "away"})
	text, _ := a.must("recall", args{"query": "tea", "namespace": "away"})
	want(t, "recall", text, "tea at four")
	text, _ = a.must("recall", args{"query": "tea"})
	want(t, "recall at home", text, "Nothing is remembered")
}

func TestReadOnly(t *testing.T) {
	config := usual
	config.ReadOnly = true
	a := connect(t, config)
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 2 {
		t.Fatalf("%d tools, %v", len(tools.Tools), err)
	}
	if _, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: "remember", Arguments: args{"content": "x"}}); err == nil {
		t.Error("remember can be called")
	}
}

// Every argument is described or speaks for itself, has one type, and is bounded.
func TestSchemas(t *testing.T) {
	a := connect(t, usual)
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	destructive := []string{}
	for _, tool := range tools.Tools {
		if tool.Description == "" || tool.OutputSchema == nil || tool.Annotations.OpenWorldHint == nil || *tool.Annotations.OpenWorldHint {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
		if h := tool.Annotations.DestructiveHint; !tool.Annotations.ReadOnlyHint && (h == nil || *h) {
			destructive = append(destructive, tool.Name)
		}
		schema := tool.InputSchema.(args)
		if schema["additionalProperties"] != false {
			t.Errorf("%s takes anything", tool.Name)
		}
		for name, property := range schema["properties"].(args) {
			p := property.(args)
			of, single := p["type"].(string)
			bounded := p["maxLength"] != nil || p["maxItems"] != nil || p["maximum"] != nil || p["minimum"] != nil || p["format"] != nil || of == "boolean"
			if !single || (!bounded && p["description"] == nil) {
				t.Errorf("%s of %s: %v", name, tool.Name, p)
			}
		}
	}
	slices.Sort(destructive)
	if want := []string{"forget", "update"}; !slices.Equal(destructive, want) {
		t.Errorf("destructive are %v, want %v", destructive, want)
	}
}

func TestResourceAndPrompt(t *testing.T) {
	a := connect(t, usual)
	_, stored := a.must("remember", args{"content": "The crane is serviced in spring."})
	templates, err := a.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Fatalf("templates: %v, %v", templates, err)
	}
	read, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "triskele://memory/" + stored["id"].(string)})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "resource", read.Contents[0].Text, "> The crane is serviced in spring.\n")
	if _, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "triskele://memory/00000000-0000-4000-8000-000000000000"}); err == nil {
		t.Error("a memory that does not exist can be read")
	}
	for uri, code := range map[string]int64{
		"triskele://memory/crane": jsonrpc.CodeInvalidParams, "triskele://memory/": jsonrpc.CodeInvalidParams,
	} {
		_, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if wire := (*jsonrpc.Error)(nil); !errors.As(err, &wire) || wire.Code != code {
			t.Errorf("%s: error %v, want code %d", uri, err, code)
		}
	}
	prompt, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "what_do_we_know", Arguments: map[string]string{"topic": "the crane"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "prompt", prompt.Messages[0].Content.(*mcp.TextContent).Text, "> The crane is serviced in spring.\n", "the crane")
	for _, arguments := range []map[string]string{nil, {"topic": " "}} {
		_, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "what_do_we_know", Arguments: arguments})
		if wire := (*jsonrpc.Error)(nil); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams || !strings.Contains(wire.Message, "topic is required") {
			t.Errorf("a prompt with %v: error %v, want -32602 about the topic", arguments, err)
		}
	}
}

// An error about a text that is too long says the limit.
func TestErrorsSayTheLimit(t *testing.T) {
	a := connect(t, usual)
	text, _, failed := a.call("remember", args{"content": strings.Repeat("é", 70_000)})
	if !failed || !strings.Contains(text, "/properties/content") || !strings.HasSuffix(text, "contains 70000 Unicode code points, more than 65536") {
		t.Errorf("got %q, want the argument and its limit", text)
	}
}

// TestErrorsQuoteLittle: an error takes little of an agent's context, however much was sent.
func TestErrorsQuoteLittle(t *testing.T) {
	a := connect(t, usual)
	long := strings.Repeat("é", 500_000)
	for name, ask := range map[string]func() string{
		"a query":          func() string { text, _, _ := a.call("recall", args{"query": long}); return text },
		"a query in bytes": func() string { text, _, _ := a.call("recall", args{"query": long[:40_000]}); return text },
		"a tag":            func() string { text, _, _ := a.call("recall", args{"query": "x", "tags": []string{long}}); return text },
		"an unknown field": func() string { text, _, _ := a.call("recall", args{"query": "x", long: 1}); return text },
		"a time":           func() string { text, _, _ := a.call("recall", args{"query": "x", "since": long}); return text },
		"an id":            func() string { text, _, _ := a.call("forget", args{"ids": []string{long}}); return text },
		"a tool":           func() string { _, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: long}); return err.Error() },
		"a resource": func() string {
			_, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "x:" + long})
			return err.Error()
		},
		"a prompt": func() string {
			_, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: long})
			return err.Error()
		},
	} {
		if got := ask(); len(got) > 350 || len(got) < 10 || strings.Count(got, "é") > 100 {
			t.Errorf("%s: got an error of %d bytes, want at most 350 with 200 of what was sent: %.400s", name, len(got), got)
		}
	}
}
