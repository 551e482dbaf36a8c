// Package client calls a Triskele gateway from Go. It depends on gRPC and the generated stubs alone.
//
//  1. Dial prepares a connection: TLS, a token, health checks, a deadline for calls without one, and retries of reads.
//  2. The methods of Client do the usual things: recall, remember, list, import, export, wait for the indexes.
//  3. Client.Recalls and Client.Memories are the generated stubs, for everything else.
//
// Package clienttest has a gateway for tests.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// BatchSize is a good number of memories for one call of Import. The gateway accepts at most 1,000.
const BatchSize = 200

// Client calls a gateway. It is safe for concurrent use.
type Client struct {
	Recalls  triskelev1.RecallServiceClient
	Memories triskelev1.MemoryServiceClient
	conn     *grpc.ClientConn // nil if the caller owns the connection
}

// New returns a client over a connection. The caller keeps the connection and closes it.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{Recalls: triskelev1.NewRecallServiceClient(conn), Memories: triskelev1.NewMemoryServiceClient(conn)}
}

// Close closes the connection that Dial made. It does nothing after New.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// Conn returns the connection that Dial made, for other services of the gateway such as health. It is nil after New.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Recall returns the memories that matter for a query, best first. The deadline of ctx is the budget. A leg that needs
// longer is left out, and the response says so. The options change the request, for instance:
//
//	func(r *triskelev1.RecallRequest) { r.Explain = true }
//
// An empty list means that the search found nothing. UNAVAILABLE means that no leg answered, or that the gateway cannot be
// reached. INVALID_ARGUMENT names the field and its bound.
func (c *Client) Recall(ctx context.Context, namespace, query string, options ...func(*triskelev1.RecallRequest)) (*triskelev1.RecallResponse, error) {
	req := &triskelev1.RecallRequest{Namespaces: []string{namespace}, Query: query}
	for _, option := range options {
		option(req)
	}
	return c.Recalls.Recall(ctx, req)
}

// Remember stores a memory and returns it as stored, with its id. A memory with an idempotency key is stored once, however
// often the call is repeated.
func (c *Client) Remember(ctx context.Context, m *triskelev1.Memory) (*triskelev1.Memory, error) {
	resp, err := c.Memories.Remember(ctx, &triskelev1.RememberRequest{Memory: m})
	return resp.GetMemory(), err
}

// List yields the memories of a namespace, newest first. It fetches each page when the loop reaches it, from req's page
// token on. An error ends it.
func (c *Client) List(ctx context.Context, req *triskelev1.ListRequest) iter.Seq2[*triskelev1.Memory, error] {
	return func(yield func(*triskelev1.Memory, error) bool) {
		page := &triskelev1.ListRequest{Namespace: req.GetNamespace(), Filter: req.GetFilter(), PageSize: req.PageSize, PageToken: req.GetPageToken()}
		for {
			resp, err := c.Memories.List(ctx, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range resp.GetMemories() {
				if !yield(m, nil) {
					return
				}
			}
			if page.PageToken = resp.GetNextPageToken(); page.PageToken == "" {
				return
			}
		}
	}
}

// Export yields every memory of a namespace, oldest first, with superseded and expired ones. An error ends it, and the
// memories before the error are not all. Only ctx bounds its time.
func (c *Client) Export(ctx context.Context, namespace string) iter.Seq2[*triskelev1.Memory, error] {
	return func(yield func(*triskelev1.Memory, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the stream if the caller stops early
		defer cancel()
		stream, err := c.Memories.Export(ctx, &triskelev1.ExportRequest{Namespace: namespace})
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range resp.GetMemories() {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// Import stores at most 1,000 memories in one transaction.
func (c *Client) Import(ctx context.Context, memories []*triskelev1.Memory) (*triskelev1.ImportResponse, error) {
	stream, err := c.Memories.Import(ctx)
	if err != nil {
		return nil, err
	}
	// Send fails with io.EOF when the call has ended. CloseAndRecv then returns its error.
	if err := stream.Send(&triskelev1.ImportRequest{Memories: memories}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// WaitIndexed returns when no index of a namespace has anything pending. After each poll it calls progress, if not nil,
// with the largest number of memories that any index lacks. It returns an error if an index cannot be polled, or if it has
// given up on a memory.
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
