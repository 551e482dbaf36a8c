// Package client calls a Triskele gateway from Go. Beyond gRPC and the generated stubs it needs nothing; package clienttest has a
// gateway for tests.
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

// BatchSize is how many memories one call of Import stores with good speed; 1,000 is the most.
const BatchSize = 200

// Client calls a gateway. Its methods are for what most programs do; the stubs have everything else. It may be used by several
// goroutines.
type Client struct {
	Recalls  triskelev1.RecallServiceClient
	Memories triskelev1.MemoryServiceClient
	conn     *grpc.ClientConn // nil if it is the caller's
}

// New returns a client over a connection, which stays the caller's.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{Recalls: triskelev1.NewRecallServiceClient(conn), Memories: triskelev1.NewMemoryServiceClient(conn)}
}

// Close closes what Dial opened.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// Conn returns the connection that Dial made, for other services of the gateway such as health; nil after New.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Recall finds what matters for a query, best first. The deadline of ctx is the budget: a leg that needs longer is left out,
// and the response says so. The options change the request, for instance:
//
//	func(r *triskelev1.RecallRequest) { r.Explain = true }
//
// An empty list means "searched, nothing found". UNAVAILABLE: no leg answered, or the gateway cannot be reached. INVALID_ARGUMENT
// names the field and its bound.
func (c *Client) Recall(ctx context.Context, namespace, query string, options ...func(*triskelev1.RecallRequest)) (*triskelev1.RecallResponse, error) {
	req := &triskelev1.RecallRequest{Namespaces: []string{namespace}, Query: query}
	for _, option := range options {
		option(req)
	}
	return c.Recalls.Recall(ctx, req)
}

// Remember stores a memory and returns it as it was stored, with its id. With an idempotency key it can be repeated: it is stored
// once.
func (c *Client) Remember(ctx context.Context, m *triskelev1.Memory) (*triskelev1.Memory, error) {
	resp, err := c.Memories.Remember(ctx, &triskelev1.RememberRequest{Memory: m})
	return resp.GetMemory(), err
}

// List yields the memories of a namespace, newest first, page by page as they are asked for; req's page size and token say where to
// begin. An error ends it.
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

// Export yields every memory of a namespace, oldest first, superseded and expired ones included. An error ends it: what came before
// is not all. It takes as long as ctx allows.
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
