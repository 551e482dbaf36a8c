package mcpserver

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// observed returns a middleware that records a span and the duration of each message, by OpenTelemetry's conventions for MCP. A
// span continues the trace that the message's metadata names. It holds nothing that a client chose freely: no arguments, no URI of
// a resource, no name of a tool that does not exist, no message of an error.
func (s *server) observed(tel *telemetry.Service) mcp.Middleware {
	duration := telemetry.Must(tel.MeterProvider.Meter(telemetry.ScopeName).Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of an MCP request or notification, by method."),
		metric.WithExplicitBucketBoundaries(.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300)))
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			start := time.Now()
			name, labels := s.describe(method, req)
			ctx, span := tel.Tracer.Start(continued(ctx, req), name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(labels...))
			result, err := next(ctx, method, req)
			if failed := failure(result, err); len(failed) > 0 {
				span.SetAttributes(failed...)
				span.SetStatus(codes.Error, "")
				labels = append(labels, failed...)
			}
			duration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(labels...))
			span.End()
			return result, err
		}
	}
}

// describe returns the name of a message's span, with the name of a tool or prompt, and its attributes.
func (s *server) describe(method string, req mcp.Request) (name string, labels []attribute.KeyValue) {
	transport := "pipe"
	if extra := req.GetExtra(); extra != nil && extra.Header != nil {
		transport = "tcp"
	}
	name, labels = method, []attribute.KeyValue{attribute.String("mcp.method.name", method), attribute.String("network.transport", transport)}
	switch params := req.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		labels = append(labels, attribute.String("gen_ai.operation.name", "execute_tool"))
		if s.tools[params.Name] {
			name, labels = method+" "+params.Name, append(labels, attribute.String("gen_ai.tool.name", params.Name))
		}
	case *mcp.GetPromptParams:
		if params.Name == topicPrompt {
			name, labels = method+" "+params.Name, append(labels, attribute.String("gen_ai.prompt.name", params.Name))
		}
	}
	return name, labels
}

// failure returns the attributes of an outcome that is an error, else none.
func failure(result mcp.Result, err error) []attribute.KeyValue {
	wire := (*jsonrpc.Error)(nil)
	called, isCall := result.(*mcp.CallToolResult)
	switch {
	case errors.As(err, &wire):
		code := strconv.FormatInt(wire.Code, 10)
		return []attribute.KeyValue{attribute.String("error.type", code), attribute.String("rpc.response.status_code", code)}
	case err != nil:
		return []attribute.KeyValue{attribute.String("error.type", "_OTHER")}
	case isCall && called.IsError:
		return []attribute.KeyValue{attribute.String("error.type", "tool_error")}
	}
	return nil
}

// continued returns a context in the trace that a request's metadata names, so that an agent's trace continues into the legs.
func continued(ctx context.Context, req mcp.Request) context.Context {
	carrier := propagation.MapCarrier{}
	if params := req.GetParams(); params != nil && !reflect.ValueOf(params).IsNil() {
		for _, key := range (propagation.TraceContext{}).Fields() {
			if value, ok := params.GetMeta()[key].(string); ok {
				carrier[key] = value
			}
		}
	}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}
