package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const benchDepth = 100

// full is a leg's answer at full depth; neighbouring legs share half of it.
func full(i int) *triskelev1.SearchResponse {
	ids := make([]string, benchDepth)
	for j := range ids {
		ids[j] = fmt.Sprintf("0190c8a0-0000-7000-8000-%012d", j+benchDepth/2*i)
	}
	resp, _ := finds(bm25, ids...).search(context.Background(), nil)
	return resp
}

func benchGateway(b *testing.B, clients []triskelev1.LegServiceClient, tel *telemetry.Service) *gateway.Gateway {
	b.Helper()
	config := gateway.DefaultConfig()
	config.Legs = gateway.DefaultLegs(nil)
	for i := range config.Legs {
		config.Legs[i].Depth = benchDepth
	}
	g, err := gateway.New(config, clients, memories{}, tel, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func start(b *testing.B) *telemetry.Service {
	b.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return process.Service("fuser")
}

// timed calls op b.N times and reports what half and 95 of 100 of the calls took.
func timed(b *testing.B, op func() error) {
	b.Helper()
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Nanoseconds())/1e3, "p95-µs")
}

// BenchmarkRecall is the gateway's own time: its legs and the memory service answer at once, in the same process.
func BenchmarkRecall(b *testing.B) {
	var clients []triskelev1.LegServiceClient
	for i := range 3 {
		clients = append(clients, answers(full(i)))
	}
	g := benchGateway(b, clients, start(b))
	req := request(func(r *triskelev1.RecallRequest) { r.Explain = false })
	timed(b, func() error {
		_, err := g.Recall(context.Background(), req)
		return err
	})
}

// served is a leg on a socket that always gives the same answer.
type served struct {
	triskelev1.UnimplementedLegServiceServer
	resp *triskelev1.SearchResponse
}

func (s served) Search(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	return s.resp, nil
}

// bare asks three legs at once and does nothing with what they say.
type bare struct {
	triskelev1.UnimplementedRecallServiceServer
	legs []triskelev1.LegServiceClient
}

func (f bare) Recall(ctx context.Context, _ *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	var wg sync.WaitGroup
	for _, leg := range f.legs {
		wg.Go(func() {
			_, _ = leg.Search(ctx, &triskelev1.SearchRequest{Namespace: "n", Query: "q", Depth: benchDepth})
		})
	}
	wg.Wait()
	return &triskelev1.RecallResponse{}, nil
}

// BenchmarkSockets is a recall over real connections, client to gateway to three legs: through a router that only asks
// three servers which say nothing, which is the floor, through one whose legs return 100 hits each, and through the
// gateway.
func BenchmarkSockets(b *testing.B) {
	tel := start(b)
	serve := func(register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
		b.Helper()
		server, err := rpc.NewServer(tel, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		register(server)
		listener, err := rpc.Listen("127.0.0.1:0", false)
		if err != nil {
			b.Fatal(err)
		}
		server.Ready()
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(server.Stop)
		conn, err := rpc.Dial(listener.Addr().String(), tel)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var empty, filled []triskelev1.LegServiceClient
	for i := range 3 {
		for list, resp := range map[*[]triskelev1.LegServiceClient]*triskelev1.SearchResponse{&empty: {State: triskelev1.LegState_LEG_STATE_OK}, &filled: full(i)} {
			conn := serve(func(s grpc.ServiceRegistrar) { triskelev1.RegisterLegServiceServer(s, served{resp: resp}) })
			*list = append(*list, triskelev1.NewLegServiceClient(conn))
		}
	}
	for _, x := range []struct {
		name    string
		recalls triskelev1.RecallServiceServer
	}{
		{"floor", bare{legs: empty}},
		{"bare", bare{legs: filled}},
		{"gateway", benchGateway(b, filled, tel)},
	} {
		client := triskelev1.NewRecallServiceClient(serve(func(s grpc.ServiceRegistrar) { triskelev1.RegisterRecallServiceServer(s, x.recalls) }))
		req := request(func(r *triskelev1.RecallRequest) { r.Explain = false })
		b.Run(x.name, func(b *testing.B) {
			timed(b, func() error {
				_, err := client.Recall(context.Background(), req)
				return err
			})
		})
	}
}
