package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// floor is the least that a recall can take: the calls alone.
type floor struct{ legs []triskelev1.LegServiceClient }

// ready is a leg that has its answer ready.
type ready struct {
	triskelev1.UnimplementedLegServiceServer
	answer *triskelev1.SearchResponse
}

func (r ready) Search(context.Context, *triskelev1.SearchRequest) (*triskelev1.SearchResponse, error) {
	return r.answer, nil
}

// serveReady serves answers that are ready, until the program ends.
func serveReady(address string) error {
	answer := &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK}
	for i := range 50 {
		answer.Hits = append(answer.Hits, &triskelev1.LegHit{Id: fmt.Sprintf("00000000-0000-7000-8000-%012d", i), Rank: int32(i + 1), Score: 1, Importance: .5})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	triskelev1.RegisterLegServiceServer(server, ready{answer: answer})
	return server.Serve(listener)
}

// newFloor starts three servers, each a process, as legs are that operators scale. In one process with their client they would take
// less than half of the time.
func (b *bench) newFloor() (*floor, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &floor{}
	for range 3 {
		address, err := b.launch(nil, program, "-ready")
		if err != nil {
			return nil, err
		}
		conn, err := rpc.Dial(address, b.tel)
		if err != nil {
			return nil, err
		}
		b.conns = append(b.conns, conn)
		f.legs = append(f.legs, triskelev1.NewLegServiceClient(conn))
	}
	return f, nil
}

// ask calls all three at once.
func (f *floor) ask(ctx context.Context, _ question) (found bool, err error) {
	errs := make(chan error, len(f.legs))
	for _, leg := range f.legs {
		go func() {
			_, err := leg.Search(ctx, &triskelev1.SearchRequest{Namespace: namespace, Query: "ready", Depth: 50})
			errs <- err
		}()
	}
	for range f.legs {
		if err := <-errs; err != nil {
			return false, err
		}
	}
	return false, nil
}
