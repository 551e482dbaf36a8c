package mcpserver_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/mcpserver"
)

// failing is a connection whose calls fail, and which keeps the last call's span.
type failing struct {
	err  error
	span *trace.SpanContext
}

func (f failing) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	if f.span != nil {
		*f.span = trace.SpanContextFromContext(ctx)
	}
	return f.err
}

func (f failing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, f.err
}

// answering is a connection whose calls have an answer.
type answering struct {
	failing
	answer proto.Message
}

func (a answering) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	proto.Merge(reply.(proto.Message), a.answer)
	return nil
}

// Memories that are unlikely to answer are marked so in the data, too: clients show a model either the text or the data.
func TestUnlikely(t *testing.T) {
	t.Parallel()
	hit := &triskelev1.Hit{Id: "1", Memory: &triskelev1.Memory{Id: "1", Content: "Tea at four."}}
	for _, x := range []struct {
		answer *triskelev1.RecallResponse
		want   bool
	}{
		{&triskelev1.RecallResponse{NothingRelevant: true, LeftOut: []*triskelev1.Hit{hit}}, true},
		{&triskelev1.RecallResponse{Hits: []*triskelev1.Hit{hit}}, false},
		{&triskelev1.RecallResponse{NothingRelevant: true}, false},
	} {
		client := session(t, answering{answer: x.answer}, usual, observer(t).Service("triskele"))
		result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "recall", Arguments: args{"query": "x"}})
		if err != nil || result.IsError {
			t.Fatal(result, err)
		}
		data, _ := result.StructuredContent.(map[string]any)
		text := result.Content[0].(*mcp.TextContent).Text
		if said := strings.HasPrefix(text, "Nothing that is remembered is likely"); said != x.want || (data["unlikely"] == true) != x.want {
			t.Errorf("%v: got %q and %v; want both to say that it is unlikely: %t", x.answer, text, data, x.want)
		}
	}
}

func TestAdviceIsTrue(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		code          codes.Code
		message, want string
	}{
		{codes.InvalidArgument, "memory.content: must have more than white space", "Correct that"},
		{codes.NotFound, "id: there is no such memory", "Use recall or list"},
		{codes.Aborted, "expected_revision: the memory has changed since; read it again", "read the memory with list"},
		{codes.Aborted, "other calls have held locks for too long; try again", "call again"},
		{codes.FailedPrecondition, "id: the memory has been superseded already; supersede the newest one", "the same call will fail again"},
		{codes.AlreadyExists, "idempotency_key: another memory has it", "another idempotency_key"},
		{codes.PermissionDenied, "the token does not cover this", "tell the user"},
		{codes.ResourceExhausted, "more than 8 calls at a time", "not now: more than 8 calls at a time. Wait before you call again"},
		{codes.ResourceExhausted, "the disk of the database is full: nothing can be stored until space is freed; recall still works", "not now: the disk of the database is full: nothing can be stored until space is freed; recall still works. Wait before you call again, and tell the user if it lasts"},
		{codes.Canceled, "the call was cancelled", "list shows whether something was stored"},
		{codes.DeadlineExceeded, "late", "did not answer in time"},
		{codes.Unavailable, "connection refused", "cannot be reached"},
		{codes.Internal, "internal error", "its log has the cause"},
		{codes.FailedPrecondition, strings.Repeat("long ", 100), "the same call will fail again"},
	} {
		client := session(t, failing{err: status.Error(x.code, x.message)}, usual, observer(t).Service("triskele"))
		result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "remember", Arguments: args{"content": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if !result.IsError || !strings.Contains(text, x.want) || len(text) > 250 || (strings.Contains(text, "has failed") || strings.Contains(text, "service failed")) != (x.code == codes.Internal) {
			t.Errorf("%v: got %q, want %q in at most 250 bytes", x.code, text, x.want)
		}
	}
}

// observer is a process whose metrics are served.
func observer(t *testing.T) *telemetry.Process {
	t.Helper()
	process, err := telemetry.Start(t.Context(), telemetry.Scraped)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Shutdown(context.Background()) })
	return process
}

func TestTraceContinues(t *testing.T) {
	t.Parallel()
	var span trace.SpanContext
	client := session(t, failing{errors.New("no"), &span}, usual, observer(t).Service("triskele"))
	_, err := client.CallTool(t.Context(), &mcp.CallToolParams{
		Meta: mcp.Meta{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, Name: "recall", Arguments: args{"query": "x"},
	})
	if err != nil || span.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || span.SpanID().String() == "00f067aa0ba902b7" || !span.IsSampled() {
		t.Errorf("got %v, %v; want a span of the server's in the agent's trace", span, err)
	}
	if _, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "recall", Arguments: args{"query": "x"}}); err != nil || span.IsSampled() {
		t.Errorf("got %v, %v; want no trace that is recorded", span, err)
	}
}

// TestSpans holds the spans and the durations of messages against OpenTelemetry's conventions. None of them has what a client wrote.
func TestSpans(t *testing.T) {
	t.Parallel()
	process := observer(t)
	tel := process.Service("triskele")
	client := session(t, failing{err: status.Error(codes.Internal, "quokka")}, usual, tel)
	id, err := trace.TraceIDFromHex("4bf92f3577b34da6a3ce929d0e0e4736")
	if err != nil {
		t.Fatal(err)
	}
	take := tel.Recorder.Watch(id)
	meta := mcp.Meta{"traceparent": "00-" + id.String() + "-00f067aa0ba902b7-01"}
	_, _ = client.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: "recall", Arguments: args{"query": "quokka"}})
	_, _ = client.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: "quokka"})
	_, _ = client.ReadResource(t.Context(), &mcp.ReadResourceParams{Meta: meta, URI: "triskele://memory/quokka"})
	_, _ = client.GetPrompt(t.Context(), &mcp.GetPromptParams{Meta: meta, Name: "what_do_we_know", Arguments: map[string]string{"topic": "quokka"}})
	_, _ = client.ListTools(t.Context(), &mcp.ListToolsParams{Meta: meta})
	var got []string
	for _, span := range take() {
		line := span.GetName()
		for _, key := range slices.Sorted(maps.Keys(span.GetAttributes())) {
			line += " " + key + "=" + span.GetAttributes()[key]
		}
		if span.GetFailed() {
			line += " failed"
		}
		got = append(got, line)
	}
	want := []string{
		"tools/call recall error.type=tool_error gen_ai.operation.name=execute_tool gen_ai.tool.name=recall mcp.method.name=tools/call network.transport=pipe failed",
		"tools/call error.type=-32602 gen_ai.operation.name=execute_tool mcp.method.name=tools/call network.transport=pipe rpc.response.status_code=-32602 failed",
		"resources/read error.type=-32603 mcp.method.name=resources/read network.transport=pipe rpc.response.status_code=-32603 failed",
		"prompts/get what_do_we_know error.type=-32603 gen_ai.prompt.name=what_do_we_know mcp.method.name=prompts/get network.transport=pipe rpc.response.status_code=-32603 failed",
		"tools/list mcp.method.name=tools/list network.transport=pipe",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	scraped := httptest.NewRecorder()
	process.Metrics().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
	counted := 0
	for line := range strings.Lines(scraped.Body.String()) {
		if strings.HasPrefix(line, "mcp_server_operation_duration_seconds_count{") {
			counted++
		}
		if strings.Contains(line, "quokka") {
			t.Errorf("got the metric %s, want none with what a client wrote", line)
		}
	}
	if counted < len(want) {
		t.Errorf("got %d durations, want one for each of %d kinds of message:\n%s", counted, len(want), scraped.Body)
	}
}

func TestSpansOfTime(t *testing.T) {
	t.Parallel()
	a := connect(t, usual)
	a.must("remember", args{"content": "The crane is serviced in spring.", "expires_at": "7d"})
	if _, data := a.must("list", args{"since": "1h"}); len(memories(data)) != 1 {
		t.Errorf("since 1h: %v", data)
	}
	if _, data := a.must("list", args{"before": "1h"}); len(memories(data)) != 0 {
		t.Errorf("before 1h: %v", data)
	}
	if _, data := a.must("list", args{"since": "", "before": "", "limit": 5}); len(memories(data)) != 1 { // as models fill in what they need not give
		t.Errorf("empty times: %v", data)
	}
	if text, _, failed := a.call("list", args{"since": "yesterday"}); !failed || !strings.Contains(text, "a span such as 36h, 7d or 2w") {
		t.Errorf("got %q", text)
	}
}

// What is no message of JSON-RPC gets an error as its answer, and ends nothing. The messages of a batch are read one by one.
func TestInvalidLines(t *testing.T) {
	t.Parallel()
	const ping = `{"jsonrpc":"2.0","method":"ping"}`
	for _, x := range []struct{ line, read, answer string }{
		{"nonsense", "", `null,"error":{"code":-32700`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\ud800"}}`, "", `7,"error":{"code":-32600,"message":"byte 56: \\ud800 is half`},
		{`{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"` + "\xff" + `"}}`, "", `"a","error":{"code":-32600,"message":"byte 58: must be UTF-8`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":1,"x":2}}`, "", `7,"error":{"code":-32600,"message":"byte 59: duplicate field`},
		{"null", "", `null,"error":{"code":-32600`},
		{"{}", "", `null,"error":{"code":-32600`},
		{"[]", "", `null,"error":{"code":-32600`},
		{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, "", `7,"error":{"code":-32600`},
		{`{"id":"x","method":"ping"}`, "", `"x","error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "", `null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","method":"x","params":[]}`, `{"jsonrpc":"2.0","method":"x","params":[]}` + "\n", ""},
		{"\ufeff" + ping, ping + "\n", ""},
		{"[" + ping + ",5," + ping + "]", ping + "\n" + ping + "\n", `null,"error":{"code":-32600`},
	} {
		var out strings.Builder
		got, err := io.ReadAll(mcpserver.NewLines(strings.NewReader(x.line), &out, time.Minute))
		if err != nil || string(got) != x.read {
			t.Errorf("%s: got %q, %v; want %q", x.line, got, err, x.read)
		}
		want := ""
		if x.answer != "" {
			want = `{"jsonrpc":"2.0","id":` + x.answer
		}
		if !strings.HasPrefix(out.String(), want) || want == "" && out.Len() > 0 {
			t.Errorf("%s: answered by %q, want %q", x.line, out.String(), want)
		}
	}
}

// At the end of input, what was asked is answered first; what is never answered is waited for as long as patience lasts.
func TestLinesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		lines := mcpserver.NewLines(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"a"}`+"\nnonsense\n\n"+`{"jsonrpc":"2.0","id":2,"method":"b"}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`), &out, time.Minute)
		var got []byte
		ended := make(chan time.Time, 1)
		began := time.Now()
		go func() {
			got, _ = io.ReadAll(lines)
			ended <- time.Now()
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		select {
		case <-ended:
			t.Error("the input ended before its answer")
		default:
		}
		if _, err := lines.Write([]byte(`{"id":1,"result":{}}` + "\n")); err != nil {
			t.Fatal(err)
		}
		if at := <-ended; at.Sub(began) != time.Second {
			t.Errorf("the input ended after %v, want 1 s", at.Sub(began))
		}
		if strings.Count(string(got), "\n") != 3 || strings.Contains(string(got), "nonsense") {
			t.Errorf("got %q", got)
		}
		if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is no JSON message"}}`; !strings.HasPrefix(out.String(), want) {
			t.Errorf("got %q, want %q", out.String(), want)
		}

		lines = mcpserver.NewLines(strings.NewReader(`{"jsonrpc":"2.0","id":"\u0062\/","method":"a"}`), &out, time.Minute)
		began = time.Now()
		go func() {
			time.Sleep(time.Second)
			_, _ = lines.Write([]byte(`{"id":"b/","result":{}}` + "\n"))
		}()
		if _, err := io.ReadAll(lines); err != nil || time.Since(began) != time.Second {
			t.Errorf("an id that is written in another way: %v after %v, want 1 s", err, time.Since(began))
		}

		began = time.Now()
		if _, err := io.ReadAll(mcpserver.NewLines(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"a"}`), &out, time.Minute)); err != nil || time.Since(began) != time.Minute {
			t.Errorf("without an answer: %v after %v, want one minute", err, time.Since(began))
		}
	})
}
