//go:build browser

package page_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/fullstorydev/grpcurl"
	"github.com/jhump/protoreflect/grpcreflect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/web"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// serve runs everything in this process with the gateway on a port, which pages of an origin may call.
func serve(t *testing.T, origin string) (address string, c *client.Client) {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	embedder, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	system, err := standalone.Start(t.Context(), standalone.Config{SQLite: filepath.Join(t.TempDir(), "callers.db"), Embedder: embedder, Gateway: gateway.DefaultConfig()}, process, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("fuser"), quiet)
	closeWeb, err := web.Open(t.Context(), web.Flags{HTTP: true, Origins: []string{origin}}, server, listener.Addr(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeWeb)
	system.Register(server)
	go func() { _ = system.Serve(server, listener) }()
	return listener.Addr().String(), client.New(system.Conn)
}

// asFrame is a message as gRPC-Web sends it, in base64.
func asFrame(t *testing.T, m proto.Message) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...))
}

// TestCallers has a web page and grpcurl remember and recall; curl has a test of its own.
func TestCallers(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><title>A page</title>"))
	}))
	t.Cleanup(page.Close)
	address, c := serve(t, page.URL)

	t.Run("a page, as JSON", func(t *testing.T) {
		ctx, _, _ := browser(t)
		post := func(path, body string) (answer string) {
			run(t, ctx, chromedp.Evaluate(fmt.Sprintf(`fetch("http://%s%s", {method: "POST", headers: {"Content-Type": "application/json"}, body: %q}).then((r) => r.text(), String)`,
				address, path, body), &answer, awaited))
			return answer
		}
		run(t, ctx, chromedp.Navigate(page.URL))
		if got := post("/v1/memories", `{"namespace": "json", "content": "Deploys are frozen from Thursday noon."}`); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"stored":true`) {
			t.Fatal(got)
		}
		indexed(t, c, "json")
		if got := post("/v1/recall", `{"namespaces": ["json"], "query": "deploy freeze", "budget": "10s"}`); !strings.Contains(got, "frozen from Thursday") || !strings.Contains(strings.ReplaceAll(got, " ", ""), `"degraded":false`) {
			t.Error(got)
		}
		other := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(other.Close)
		run(t, ctx, chromedp.Navigate(other.URL))
		if got := post("/v1/recall", `{"namespaces": ["json"], "query": "deploy freeze"}`); !strings.Contains(got, "Failed to fetch") {
			t.Errorf("a page that may not: %s", got)
		}
	})

	t.Run("a page, as gRPC-Web", func(t *testing.T) {
		ctx, _, _ := browser(t)
		call := func(method string, req, resp proto.Message) {
			var text string
			run(t, ctx, chromedp.Evaluate(fmt.Sprintf(`fetch("http://%s%s", {method: "POST", body: %q,
				headers: {"Content-Type": "application/grpc-web-text", "X-Grpc-Web": "1", "Grpc-Timeout": "10S"}}).then((r) => r.text(), String)`, address, method, asFrame(t, req)), &text, awaited))
			first, _, _ := strings.Cut(text, "=") // frames are padded each by itself, or not at all
			data, err := base64.RawStdEncoding.DecodeString(first)
			if err != nil || len(data) < 5 || data[0] != 0 {
				t.Fatalf("%v: %s", err, text)
			}
			if err := proto.Unmarshal(data[5:5+binary.BigEndian.Uint32(data[1:5])], resp); err != nil {
				t.Fatal(err)
			}
		}
		run(t, ctx, chromedp.Navigate(page.URL))
		call(triskelev1.MemoryService_Remember_FullMethodName, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "web", Content: "Deploys are frozen from Thursday noon."}}, &triskelev1.RememberResponse{})
		indexed(t, c, "web")
		resp := &triskelev1.RecallResponse{}
		call(triskelev1.RecallService_Recall_FullMethodName, &triskelev1.RecallRequest{Namespaces: []string{"web"}, Query: "deploy freeze"}, resp)
		if len(resp.GetHits()) != 1 || resp.GetHits()[0].GetMemory().GetContent() != "Deploys are frozen from Thursday noon." {
			t.Errorf("%v", resp)
		}
	})

	t.Run("grpcurl", func(t *testing.T) {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		described := grpcreflect.NewClientAuto(t.Context(), conn)
		t.Cleanup(described.Reset)
		source := grpcurl.DescriptorSourceFromServer(t.Context(), described)
		call := func(method, body string) string {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			parser, formatter, err := grpcurl.RequestParserAndFormatter(grpcurl.FormatJSON, source, strings.NewReader(body), grpcurl.FormatOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			handler := &grpcurl.DefaultEventHandler{Out: &out, Formatter: formatter}
			if err := grpcurl.InvokeRPC(ctx, source, conn, method, nil, handler, parser.Next); err != nil || handler.Status.Err() != nil {
				t.Fatal(err, handler.Status)
			}
			return out.String()
		}
		if got := call("triskele.v1.MemoryService/Remember", `{"memory": {"namespace": "grpcurl", "content": "Deploys are frozen from Thursday noon."}}`); !strings.Contains(got, `"stored": true`) {
			t.Fatal(got)
		}
		indexed(t, c, "grpcurl")
		if got := call("triskele.v1.RecallService/Recall", `{"namespaces": ["grpcurl"], "query": "deploy freeze"}`); !strings.Contains(got, "frozen from Thursday") {
			t.Error(got)
		}
	})
}

func indexed(t *testing.T, c *client.Client, namespace string) {
	t.Helper()
	if err := c.WaitIndexed(t.Context(), namespace, nil); err != nil {
		t.Fatal(err)
	}
}

func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
