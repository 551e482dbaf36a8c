// Package client is what programs that call a gateway share beyond the generated stubs: importing in batches, waiting
// for the indexes, and tracing one call.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/telemetry"
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

// Trace runs call under a sampled root span of the given name and returns what recorder kept of the trace, together with
// the spans that call returned from elsewhere. The connection that call uses must record with recorder too.
func Trace(ctx context.Context, recorder *telemetry.Recorder, name string, call func(context.Context) ([]*triskelev1.Span, error)) ([]*triskelev1.Span, error) {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(sdkresource.NewSchemaless(semconv.ServiceName("triskele"))),
		sdktrace.WithSpanProcessor(recorder),
	)
	ctx, span := provider.Tracer(telemetry.ScopeName).Start(ctx, name)
	take := recorder.Watch(span.SpanContext().TraceID())
	spans, err := call(ctx)
	span.End()
	return append(take(), spans...), err
}
