package standalone_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/web"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// unread are ways to ask for an export over a connection of its own and to read the beginning of it only. An error is a status.
var unread = map[string]func(t *testing.T, address, namespace string) error{
	"gRPC": func(t *testing.T, address, namespace string) error {
		process, err := telemetry.Start(t.Context())
		if err != nil {
			return err
		}
		conn, err := rpc.Dial(address, process.Service("caller"))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close() })
		stream, err := triskelev1.NewMemoryServiceClient(conn).Export(t.Context(), &triskelev1.ExportRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	},
	"JSON": func(t *testing.T, address, namespace string) error {
		return beginHTTP(t, address, fmt.Sprintf("GET /v1/memories:export?namespace=%s HTTP/1.1\r\nHost: %s\r\n\r\n", namespace, address))
	},
	"gRPC-Web": func(t *testing.T, address, namespace string) error {
		message, err := proto.Marshal(&triskelev1.ExportRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		return beginHTTP(t, address, fmt.Sprintf("POST /triskele.v1.MemoryService/Export HTTP/1.1\r\nHost: %s\r\nContent-Type: application/grpc-web+proto\r\nContent-Length: %d\r\n\r\n%s",
			address, len(body), body))
	},
}

// beginHTTP sends a request and reads the header and the first KiB of the answer.
func beginHTTP(t *testing.T, address, request string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = conn.Close() })
	// The kernel would take megabytes.
	if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(4<<10), conn.SetReadDeadline(time.Now().Add(30*time.Second))); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
	if err != nil {
		return err
	}
	part := make([]byte, 1<<10)
	n, err := io.ReadFull(resp.Body, part)
	if err == nil {
		return nil
	}
	code := codes.Unknown
	if resp.StatusCode == http.StatusTooManyRequests || strings.Contains(string(part[:n]), fmt.Sprintf("grpc-status: %d\r\n", codes.ResourceExhausted)) {
		code = codes.ResourceExhausted
	}
	return status.Error(code, fmt.Sprintf("%s, %s", resp.Status, part[:n]))
}

// TestUnreadExportsStopNobody leaves exports unread, as many as there are connections for reading. Others recall as before, and one
// caller too many is told so.
func TestUnreadExportsStopNobody(t *testing.T) {
	t.Parallel()
	onBoth(t, leaveUnread)
}

func leaveUnread(t *testing.T, config standalone.Config) {
	config.Embedder = embed.NewHashed()
	system, err := startSystem(t, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	const each = 700
	for _, namespace := range []string{"one/a", "two/a", "three/a", "n"} {
		text := strings.Repeat("x", 40<<10) // more than all buffers on the way
		if namespace == "n" {
			text = "The Heron crane is serviced in spring."
		}
		records := make([]record.Record, each)
		for i := range records {
			records[i] = storetest.Record(namespace, text, func(r *record.Record) { r.Sensitive = true }) // indexed by words only
		}
		if _, err := system.Backend.Memory().Insert(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	address := serveOutside(t, system)

	for protocol, namespaces := range map[string][]string{
		"gRPC": {"one/a", "one/a", "one/a"}, "JSON": {"two/a", "two/a", "two/a"}, "gRPC-Web": {"three/a", "three/a"},
	} {
		for _, namespace := range namespaces {
			if err := unread[protocol](t, address, namespace); err != nil {
				t.Fatalf("%s export of %s: %v", protocol, namespace, err)
			}
		}
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		resp, err := triskelev1.NewRecallServiceClient(system.Conn).Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "Heron crane"})
		cancel()
		if err != nil || len(resp.GetHits()) == 0 || resp.GetHits()[0].GetMemory() == nil {
			t.Fatalf("a recall beside unread exports has %d hits, with contents: %v, error %v",
				len(resp.GetHits()), len(resp.GetHits()) > 0 && resp.GetHits()[0].GetMemory() != nil, err)
		}
	}
	for protocol, begin := range unread {
		if err := begin(t, address, "four"); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one more export by %s: got %v, want RESOURCE_EXHAUSTED", protocol, err)
		}
	}
}

// serveOutside serves the gateway on a TCP address, by gRPC and by HTTP.
func serveOutside(t *testing.T, system *standalone.System) string {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	tel := process.Service("fuser")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(tel, storetest.Log())
	closeWeb, err := web.Open(context.Background(), web.Flags{HTTP: true}, server, listener.Addr(), storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	system.Register(server)
	go func() { served <- system.Serve(server, listener) }()
	t.Cleanup(func() {
		server.Stop()
		closeWeb()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
