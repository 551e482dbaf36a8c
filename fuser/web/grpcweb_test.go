package web_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/web"
	"github.com/triskele/triskele/proto/client/clienttest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	web1    = "application/grpc-web+proto"
	webText = "application/grpc-web-text"
)

func frame(flags byte, payload []byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(payload)))
	return append(out, payload...)
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return frame(0, data)
}

// answer is what a client makes of a body: messages, and how the call ended.
type answer struct {
	messages [][]byte
	trailers map[string]string
}

func parse(t testing.TB, kind string, body []byte) (a answer) {
	t.Helper()
	if kind == webText {
		var plain []byte
		for len(body) > 0 { // each part is padded by itself
			n := len(body)
			if at := bytes.IndexByte(body, '='); at >= 0 {
				n = (at/4 + 1) * 4
			}
			part, err := base64.StdEncoding.DecodeString(string(body[:n]))
			if err != nil {
				t.Fatalf("%v: %q", err, body)
			}
			plain, body = append(plain, part...), body[n:]
		}
		body = plain
	}
	for len(body) > 0 {
		if len(body) < 5 || a.trailers != nil {
			t.Fatalf("no frame, or one after the trailers: %q", body)
		}
		payload := body[5 : 5+binary.BigEndian.Uint32(body[1:5])]
		if body[0] == 0 {
			a.messages = append(a.messages, payload)
		} else {
			a.trailers = map[string]string{}
			for line := range strings.Lines(string(payload)) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
				a.trailers[name] = value
			}
		}
		body = body[5+len(payload):]
	}
	return a
}

// call sends frames to a method.
func (g *gateway) call(method, kind string, frames []byte, headers ...string) answer {
	g.t.Helper()
	body := string(frames)
	if kind == webText {
		body = base64.StdEncoding.EncodeToString(frames)
	}
	resp, text := g.ask(http.DefaultClient, "POST", "http://"+g.address+method, body, append(headers, "Content-Type: "+kind, "X-Grpc-Web: 1")...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != kind {
		g.t.Fatalf("%s: %v %s", resp.Status, resp.Header, text)
	}
	return parse(g.t, kind, []byte(text))
}

func TestGRPCWeb(t *testing.T) {
	g := startPlain(t)
	remember := encoded(t, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "acme/ops", Content: "Deploys are frozen."}})
	recall := encoded(t, &triskelev1.RecallRequest{Namespaces: []string{"acme/ops"}, Query: "frozen"})
	for _, kind := range []string{web1, webText, "application/grpc-web"} {
		if a := g.call("/triskele.v1.MemoryService/Remember", kind, remember); len(a.messages) != 1 || a.trailers["grpc-status"] != "0" {
			t.Fatalf("%s: %+v", kind, a)
		}
		a := g.call("/triskele.v1.RecallService/Recall", kind, recall)
		resp := &triskelev1.RecallResponse{}
		if len(a.messages) != 1 || proto.Unmarshal(a.messages[0], resp) != nil || resp.GetHits()[0].GetMemory().GetContent() != "Deploys are frozen." {
			t.Errorf("%s: %+v", kind, a)
		}
	}
	if a := g.call("/triskele.v1.RecallService/Recall", web1, recall, "Baggage: user=é"); a.trailers["grpc-status"] != "0" {
		t.Errorf("a header beyond ASCII: %+v", a)
	}
	imported := encoded(t, &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "acme/ops", Content: "x"}}})
	a := g.call("/triskele.v1.MemoryService/Import", web1, append(imported, imported...))
	stored := &triskelev1.ImportResponse{}
	if len(a.messages) != 1 || proto.Unmarshal(a.messages[0], stored) != nil || stored.GetStored() != 2 {
		t.Errorf("a stream of requests: %+v", a)
	}
	export := encoded(t, &triskelev1.ExportRequest{Namespace: "acme/ops"})
	if a := g.call("/triskele.v1.MemoryService/Export", webText, export); len(a.messages) == 0 || a.trailers["grpc-status"] != "0" {
		t.Errorf("a stream of answers: %+v", a)
	}
}

// A call gives up a caller who reads nothing. Its last message is not sent beside the call's end, and the connection is closed.
func TestUnreadMessages(t *testing.T) {
	for _, kind := range []string{web1, webText} {
		g := startPlain(t)
		conn, err := net.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		body := encoded(t, &triskelev1.ExportRequest{Namespace: "large"})
		if kind == webText {
			body = []byte(base64.StdEncoding.EncodeToString(body))
		}
		if _, err := fmt.Fprintf(conn, "POST /triskele.v1.MemoryService/Export HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			kind, len(body), body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: the connection stays open", kind)
		}
		if at := bytes.Index(rest, []byte("grpc-status")); at >= 0 {
			t.Errorf("%s: the call's end comes within a message, at byte %d of %d", kind, at, len(rest))
		}
	}
}

// TestBothWays: a call may answer before it has all of its messages.
func TestBothWays(t *testing.T) {
	g := startPlain(t)
	list := encoded(t, &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	for _, kind := range []string{web1, webText} {
		a := g.call(reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName, kind, bytes.Repeat(list, 3))
		if len(a.messages) != 3 || a.trailers["grpc-status"] != "0" {
			t.Errorf("%s: got %d answers and the end %v, want 3 and 0", kind, len(a.messages), a.trailers)
		}
	}
}

// TestUnreadAnswers: callers who leave their answers unread, or have gone, hold no memory that other requests need, and nothing
// counts as a fault of the server.
func TestUnreadAnswers(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server := rpc.NewServer(process.Service("test"), slog.New(slog.NewTextHandler(&log, nil)))
	triskelev1.RegisterRecallServiceServer(server, clienttest.NewFake())
	triskelev1.RegisterMemoryServiceServer(server, clienttest.NewFake())
	handler, err := web.NewHandler(t.Context(), rpc.NewLocal(server, nil).Give(), nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := &triskelev1.Memory{Namespace: "acme", Content: strings.Repeat("x", 64<<10)}
	text, err := protojson.Marshal(memory)
	if err != nil {
		t.Fatal(err)
	}
	for kind, request := range map[string]func() *http.Request{
		"JSON": func() *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1/v1/memories", bytes.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			return r
		},
		"gRPC-Web": func() *http.Request {
			body := encoded(t, &triskelev1.RememberRequest{Memory: memory})
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1"+triskelev1.MemoryService_Remember_FullMethodName, bytes.NewReader(body))
			r.Header.Set("Content-Type", web1)
			return r
		},
	} {
		gone, reads := make(chan struct{}), make(chan struct{}, 300)
		var answers sync.WaitGroup
		for range cap(reads) { // more than the memory for large messages
			answers.Go(func() { handler.ServeHTTP(unreadWriter{httptest.NewRecorder(), reads, gone}, request()) })
		}
		for i := range cap(reads) {
			select {
			case <-reads:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: %d callers are answered, and others wait for them", kind, i)
			}
		}
		close(gone)
		answers.Wait()
	}
	gone := make(chan struct{})
	close(gone)
	export := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1"+triskelev1.MemoryService_Export_FullMethodName,
		bytes.NewReader(encoded(t, &triskelev1.ExportRequest{Namespace: "acme"})))
	export.Header.Set("Content-Type", web1)
	handler.ServeHTTP(unreadWriter{httptest.NewRecorder(), nil, gone}, export)
	server.Stop()
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

// unreadWriter is of a caller who reads nothing, and then goes.
type unreadWriter struct {
	http.ResponseWriter
	begun chan<- struct{}
	gone  <-chan struct{}
}

// Write implements http.ResponseWriter.
func (w unreadWriter) Write([]byte) (int, error) {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	<-w.gone
	return 0, io.ErrClosedPipe
}

func TestGRPCWebErrors(t *testing.T) {
	g := startPlain(t)
	g.recall = func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		if req.GetQuery() == "wait" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, status.Error(codes.NotFound, "100 % größer\n")
	}
	ask := func(query string, limit int32) []byte {
		return encoded(t, &triskelev1.RecallRequest{Namespaces: []string{"acme"}, Query: query, Limit: &limit})
	}
	const method = "/triskele.v1.RecallService/Recall"
	for name, x := range map[string]struct {
		method, kind  string
		frames        []byte
		header        string
		code, message string
	}{
		"an error of the service":  {method, web1, ask("x", 1), "", "5", "100 %25 gr%C3%B6%C3%9Fer%0A"},
		"an unknown method":        {"/triskele.v1.RecallService/Nothing", web1, nil, "", "12", "unknown method Nothing"},
		"time that passes":         {method, web1, ask("wait", 1), "Grpc-Timeout: 20m", "4", "the deadline passed before the work was done"},
		"a time that is none":      {method, web1, ask("x", 1), "Grpc-Timeout: 20", "3", "grpc-timeout"},
		"no message":               {method, web1, nil, "", "3", "no message"},
		"no protobuf":              {method, web1, frame(0, []byte("\xff")), "", "3", "not a valid protobuf message"},
		"a compressed frame":       {method, web1, frame(1, nil), "", "12", "uncompressed"},
		"a frame that breaks off":  {method, web1, []byte("\x00\x00\x00\x00\x09x"), "", "3", "shorter"},
		"a header that breaks off": {method, web1, []byte("\x00\x00"), "", "3", "not a sequence of gRPC-Web frames"},
		"an enormous frame":        {method, web1, []byte("\x00\xff\xff\xff\xff"), "", "8", "at most"},
	} {
		var headers []string
		if x.header != "" {
			headers = []string{x.header}
		}
		if a := g.call(x.method, x.kind, x.frames, headers...); a.trailers["grpc-status"] != x.code || !strings.Contains(a.trailers["grpc-message"], x.message) {
			t.Errorf("%s: %+v", name, a)
		}
	}

	a := g.call(method, web1, ask("x", 5000))
	raw, err := base64.RawStdEncoding.DecodeString(a.trailers["grpc-status-details-bin"])
	if err != nil {
		t.Fatal(err)
	}
	st := &spb.Status{}
	if err := proto.Unmarshal(raw, st); err != nil {
		t.Fatal(err)
	}
	bad, ok := status.FromProto(st).Details()[0].(*errdetails.BadRequest)
	if !ok || bad.GetFieldViolations()[0].GetField() != "limit" {
		t.Errorf("details: %v", st)
	}

	resp, _ := g.ask(http.DefaultClient, "POST", "http://"+g.address+method, "{}", "Content-Type: application/grpc-web+json")
	if resp.StatusCode != 415 {
		t.Errorf("JSON as gRPC-Web: %s", resp.Status)
	}
}

// Whatever comes, it is answered: never by a panic nor as a fault of the server's own.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "/v1/recall", "application/json", []byte(frozen), "1S")
	f.Add("PATCH", "/v1/memories/"+absent+"?namespace=acme", "application/json", []byte(`{"title": "x", "metadata": {"a": [1, null]}}`), "")
	f.Add("GET", "/v1/memories?filter.tags_any=a&filter.metadata[x]=1&page_size=1", "", []byte(nil), "99999999H")
	f.Add("POST", "/v1/memories:import", "application/json", []byte(`{"memories": [`+memory+`]} {}`), "1")
	f.Add("POST", "/v1/memories:import", "application/json", []byte(`{"memories": [{"metadata": {"a": "\\"}{"}}]}{"memories":[{},{}]}[]`), "")
	f.Add("POST", "/grpc.health.v1.Health/Check", web1, frame(0, nil), "")
	f.Add("POST", "/triskele.v1.RecallService/Recall", web1, frame(0, []byte("\x0a\x01a\x12\x01b")), "1m")
	f.Add("POST", "/triskele.v1.RecallService/Recall", webText, []byte("AAAAAAA="), "1u")
	f.Add("POST", "/triskele.v1.MemoryService/Import", web1, append(frame(0, nil), frame(0x80, nil)...), "")
	process, err := telemetry.Start(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	tel, log := process.Service("fuzz"), slog.New(slog.DiscardHandler)
	service, ctx := &fake{Fake: clienttest.NewFake()}, f.Context()
	server := rpc.NewServer(tel, log)
	triskelev1.RegisterRecallServiceServer(server, service)
	triskelev1.RegisterMemoryServiceServer(server, service)
	handler, err := web.NewHandler(ctx, rpc.NewLocal(server, nil), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, kind string, body []byte, timeout string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, bytes.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		req.RequestURI, req.RemoteAddr = req.URL.RequestURI(), "127.0.0.1:1"
		req.Header.Set("Content-Type", kind)
		if timeout != "" {
			req.Header.Set("Grpc-Timeout", timeout)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req.WithContext(ctx))
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/grpc-web") {
			sent := w.Header().Get("Content-Type")
			if strings.Contains(sent, "text") {
				sent = webText
			}
			if a := parse(t, sent, w.Body.Bytes()); a.trailers["grpc-status"] == "" {
				t.Errorf("no end of the call: %q", w.Body)
			}
		}
	})
}

// A stream of objects falls into the same ones as for the library, as far as the library can read it.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a": "}\\"{", "b": [{}]} {} {"c": null}`))
	f.Add([]byte("{\"a\": \"\\\\\"}\n{}"))
	f.Add([]byte("}{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		for rest := bytes.TrimLeft(text, " \t\r\n"); len(rest) > 0; rest = bytes.TrimLeft(rest, " \t\r\n") {
			got, cost := web.Object(rest)
			if len(got) == 0 || len(got) > len(rest) || cost < len(got)-1 {
				t.Fatalf("%q at a cost of %d, of %q", got, cost, rest)
			}
			var want json.RawMessage
			if decoder.Decode(&want) != nil || want[0] != '{' {
				return // it is refused, wherever it ends
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			rest = rest[len(got):]
		}
	})
}
