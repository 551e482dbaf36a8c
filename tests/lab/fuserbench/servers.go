package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// kinds are what the scores of the three legs are.
var kinds = []triskelev1.ScoreKind{
	triskelev1.ScoreKind_SCORE_KIND_BM25, triskelev1.ScoreKind_SCORE_KIND_COSINE, triskelev1.ScoreKind_SCORE_KIND_PAGERANK,
}

// answer is what leg i always says, at full depth; neighbouring legs share half of it.
func answer(i, depth int) *triskelev1.SearchResponse {
	resp := &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: kinds[i]}
	for j := range depth {
		resp.Hits = append(resp.Hits, &triskelev1.LegHit{
			Id: fmt.Sprintf("0190c8a0-0000-7000-8000-%012d", j+depth/2*i), Rank: int32(j + 1), Score: 1 / float64(j+1),
			Importance: float64(j%5) / 4, CreatedAt: timestamppb.New(time.Unix(int64(j), 0)),
		})
	}
	return resp
}

// local is a leg in this process that answers at once.
type local struct {
	triskelev1.LegServiceClient
	resp *triskelev1.SearchResponse
}

func (l local) Search(context.Context, *triskelev1.SearchRequest, ...grpc.CallOption) (*triskelev1.SearchResponse, error) {
	return l.resp, nil
}

// remote is the same on a socket.
type remote struct {
	triskelev1.UnimplementedLegServiceServer
	resp *triskelev1.SearchResponse
}

func (r remote) Search(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	return r.resp, nil
}

// contents is a memory service in this process that has every memory.
type contents struct{ triskelev1.MemoryServiceClient }

func (contents) Get(_ context.Context, req *triskelev1.GetRequest, _ ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	resp := &triskelev1.GetResponse{Memories: make([]*triskelev1.Memory, len(req.GetIds()))}
	for i, id := range req.GetIds() {
		resp.Memories[i] = &triskelev1.Memory{Id: id}
	}
	return resp, nil
}

// router asks three legs at once and does nothing with what they say.
type router struct {
	triskelev1.UnimplementedRecallServiceServer
	legs  []triskelev1.LegServiceClient
	depth int
}

func (r router) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	var wg sync.WaitGroup
	errs := make([]error, len(r.legs))
	for i, leg := range r.legs {
		wg.Go(func() {
			_, errs[i] = leg.Search(ctx, &triskelev1.SearchRequest{Namespace: req.GetNamespaces()[0], Query: req.GetQuery(), Depth: int32(r.depth)})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &triskelev1.RecallResponse{}, nil
}

// host runs servers until it is closed.
type host struct {
	tel   *telemetry.Service
	stops []func()
}

// serve registers a service with a server of its own on a socket and returns a connection to it.
func (h *host) serve(register func(grpc.ServiceRegistrar)) (*grpc.ClientConn, error) {
	server := rpc.NewServer(h.tel, slog.New(slog.DiscardHandler))
	register(server)
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		return nil, err
	}
	server.Ready()
	go func() { _ = server.Serve(listener) }()
	conn, err := rpc.Dial(listener.Addr().String(), h.tel)
	if err != nil {
		server.Stop()
		return nil, err
	}
	h.stops = append(h.stops, func() { _ = conn.Close(); server.Stop() })
	return conn, nil
}

func (h *host) close() {
	for _, stop := range h.stops {
		stop()
	}
}

// legs serves three legs, which say what of returns.
func (h *host) legs(of func(i int) *triskelev1.SearchResponse) ([]triskelev1.LegServiceClient, error) {
	clients := make([]triskelev1.LegServiceClient, len(kinds))
	for i := range clients {
		conn, err := h.serve(func(s grpc.ServiceRegistrar) { triskelev1.RegisterLegServiceServer(s, remote{resp: of(i)}) })
		if err != nil {
			return nil, err
		}
		clients[i] = triskelev1.NewLegServiceClient(conn)
	}
	return clients, nil
}

func (h *host) gateway(legs []triskelev1.LegServiceClient, depth int) (*gateway.Gateway, error) {
	config := gateway.DefaultConfig()
	config.Legs = gateway.DefaultLegs(nil)
	for i := range config.Legs {
		config.Legs[i].Depth = depth
	}
	return gateway.New(config, legs, contents{}, h.tel, slog.New(slog.DiscardHandler))
}
