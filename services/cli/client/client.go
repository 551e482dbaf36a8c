// Package client is what programs that call a gateway share beyond the generated stubs: importing in batches and waiting
// for the indexes.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// BatchSize is how many memories one import call stores.
const BatchSize = 200

// Client calls a gateway.
type Client struct {
	Recalls  triskelev1.RecallServiceClient
	Memories triskelev1.MemoryServiceClient
}

// New returns a client over a connection, which stays the caller's.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{triskelev1.NewRecallServiceClient(conn), triskelev1.NewMemoryServiceClient(conn)}
}

// Import stores memories in one transaction.
func (c *Client) Import(ctx context.Context, memories []*triskelev1.Memory) (*triskelev1.ImportResponse, error) {
	stream, err := c.Memories.Import(ctx)
	if err != nil {
		return nil, err
	}
	// A failed Send means that the call has ended; CloseAndRecv says how.
	if err := stream.Send(&triskelev1.ImportRequest{Memories: memories}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// WaitIndexed returns when no index of a namespace has anything pending. Between two looks it calls progress, if not
// nil, with the number of memories that the furthest index is behind. An index that cannot be asked is an error, and so
// is a memory that could not be indexed.
func (c *Client) WaitIndexed(ctx context.Context, namespace string, progress func(pending int64)) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		resp, err := c.Recalls.GetIndexStatus(ctx, &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		var pending, dead int64
		for _, leg := range resp.GetLegs() {
			if leg.GetError() != "" {
				return fmt.Errorf("the index of the %s leg cannot be asked: %s", leg.GetLeg(), leg.GetError())
			}
			pending = max(pending, leg.GetStatus().GetPending())
			dead = max(dead, leg.GetStatus().GetDead())
		}
		if pending == 0 && dead > 0 {
			return fmt.Errorf("%d memories of namespace %s could not be indexed; the server's log has the cause", dead, namespace)
		}
		if pending == 0 {
			return nil
		}
		if progress != nil {
			progress(pending)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
