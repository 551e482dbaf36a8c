package standalone_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// clients are those of a stranger, and of a leg as the gateway calls it.
type clients struct {
	conn   *grpc.ClientConn
	recall triskelev1.RecallServiceClient
	memory triskelev1.MemoryServiceClient
	dense  triskelev1.LegServiceClient
}

// invented lists what callers can make up, by what the program may keep of it. That is bounded: enough of it are sent for what there
// is room for, and as many more must leave nothing. Whoever adds a map with texts of requests as keys adds how to fill it.
var invented = map[string]struct {
	kept string
	room int // how many fill what is kept
	size int // of a text, in bytes
	ask  func(ctx context.Context, c clients, text string)
}{
	"namespaces of recalls": {
		kept: "leg: 1,024 counts of what an index lacks, for each index", room: 1024,
		ask: func(ctx context.Context, c clients, text string) {
			_, _ = c.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{text}, Query: "Heron crane"})
		},
	},
	"namespaces of other calls": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			_, _ = c.recall.GetIndexStatus(ctx, &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: text})
			_, _ = c.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: text})
			_, _ = c.memory.List(ctx, &triskelev1.ListRequest{Namespace: text})
			_, _ = c.memory.ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{Prefix: text})
			_, _ = c.memory.DeleteNamespace(ctx, &triskelev1.DeleteNamespaceRequest{Namespace: text})
		},
	},
	"queries": {
		kept: "querypath: 32 MiB of query vectors with their texts", room: 1200, size: 30_000,
		ask: func(ctx context.Context, c clients, text string) {
			_, _ = c.dense.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Query: text, Depth: 1})
		},
	},
	"legs": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			_, _ = c.recall.Recall(ctx, &triskelev1.RecallRequest{
				Namespaces: []string{"n"}, Query: "crane", Legs: map[string]*triskelev1.LegOptions{text: {}}, RequiredLegs: []string{text},
			})
		},
	},
	"filters": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			_, _ = c.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "crane", Filter: &triskelev1.Filter{
				TagsAny: []string{text}, Categories: []string{text}, Metadata: map[string]*structpb.Value{text: structpb.NewStringValue(text)},
			}})
		},
	},
	"tokens of writes": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			for _, token := range []string{text, revision.Token{Namespace: text, Sequence: 1 << 40}.String()} {
				_, _ = c.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "crane", AtLeast: []string{token}})
			}
		},
	},
	"methods": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			_ = c.conn.Invoke(ctx, "/triskele.v1.RecallService/"+text, &triskelev1.RecallRequest{}, &triskelev1.RecallResponse{})
			_ = c.conn.Invoke(ctx, "/"+text+"/Recall", &triskelev1.RecallRequest{}, &triskelev1.RecallResponse{})
		},
	},
	"headers": {
		kept: "nothing",
		ask: func(ctx context.Context, c clients, text string) {
			ctx = metadata.AppendToOutgoingContext(ctx, text, text, "authorization", "Bearer "+text, "baggage", "k="+text, "tracestate", "k="+text)
			_, _ = c.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "crane"})
		},
	},
}

// TestInventedTextsLeaveNothing sends what callers can make up until what is kept of it is full, and then measures what more of it
// takes. Nothing of it may become a label of a metric. It is alone in the process, as it measures memory.
func TestInventedTextsLeaveNothing(t *testing.T) {
	for engine, config := range map[string]standalone.Config{
		"postgres": {Postgres: pgtest.New(t)},
		"sqlite":   {SQLite: filepath.Join(t.TempDir(), "test.db")},
	} {
		t.Run(engine, func(t *testing.T) {
			process, err := telemetry.Start(context.Background(), telemetry.Scraped)
			if err != nil {
				t.Fatal(err)
			}
			config.Embedder, config.Gateway = embed.NewHashed(), gateway.DefaultConfig()
			config.Gateway.Budget.Max = patience
			system, err := standalone.Start(context.Background(), config, process, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := system.Close(); err != nil {
					t.Error(err)
				}
			}()
			remember(t, triskelev1.NewMemoryServiceClient(system.Conn), "The Heron crane is serviced in spring.")
			conn := outside(t, system, process)
			c := clients{conn, triskelev1.NewRecallServiceClient(conn), triskelev1.NewMemoryServiceClient(conn), system.Legs["dense"]}
			for name, kind := range invented {
				const more, perText = 100, 200 // bytes that a text may take, which a single map entry and its key need more than
				send(t, c, kind.ask, "before", kind.room+more, kind.size)
				// What is kept of texts grows in every round. What pools and the follower hold goes up and down by more than that.
				grown := math.MaxInt
				for round := 0; round < 10 && grown > more*perText; round++ {
					before := heap()
					send(t, c, kind.ask, fmt.Sprintf("after-%d", round), more, kind.size)
					grown = min(grown, heap()-before)
				}
				if grown > more*perText {
					t.Errorf("%s: got %d bytes more after %d more texts, want at most %d: %s is kept", name, grown, more, more*perText, kind.kept)
				}
			}
			scraped := httptest.NewRecorder()
			process.Metrics().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
			body := scraped.Body.String()
			if !strings.Contains(body, "triskele_recalls_total") {
				t.Errorf("got metrics without recalls: %s", body)
			}
			if at := strings.Index(body, "invented"); at >= 0 {
				t.Errorf("got a metric about %s, want none about what callers make up", body[max(at-200, 0):min(at+100, len(body))])
			}
		})
	}
}

// outside serves a system to strangers and returns a connection without telemetry of its own.
func outside(t *testing.T, system *standalone.System, process *telemetry.Process) *grpc.ClientConn {
	t.Helper()
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("fuser"), slog.New(slog.DiscardHandler))
	system.Register(server)
	go func() { _ = system.Serve(server, listener) }() // until the system is closed
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// send makes up texts.
func send(t *testing.T, c clients, ask func(context.Context, clients, string), when string, n, size int) {
	t.Helper()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				text := fmt.Sprintf("invented-%s-%d", when, i)
				ask(t.Context(), c, text+strings.Repeat("x", max(size-len(text), 0)))
			}
		})
	}
	senders.Wait()
}

// heap returns the bytes that are in use.
func heap() int {
	var stats runtime.MemStats
	for range 3 { // what pools hold goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
