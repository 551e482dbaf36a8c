package main

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// off is what the others are compared with.
const off = "off"

// sink is a collector that counts spans and throws them away.
type sink struct {
	tracespb.UnimplementedTraceServiceServer
	spans atomic.Int64
}

// Export implements tracespb.TraceServiceServer.
func (s *sink) Export(_ context.Context, req *tracespb.ExportTraceServiceRequest) (*tracespb.ExportTraceServiceResponse, error) {
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.spans.Add(int64(len(scope.GetSpans())))
		}
	}
	return &tracespb.ExportTraceServiceResponse{}, nil
}

// startTelemetries starts the same programs, all of them running, each time with more telemetry than before.
func (b *bench) startTelemetries(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	tracespb.RegisterTraceServiceServer(server, &b.sink)
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, server.Stop)
	metrics := []string{"TRISKELE_ADMIN=127.0.0.1:0"}
	traces := slices.Concat(metrics, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc"})
	ratio := slices.Concat(traces, []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01"})
	for _, kind := range []struct {
		name string
		env  []string
	}{
		{off, nil},
		{"metrics", metrics},
		{"metrics, traces 1 %", slices.Concat(ratio, []string{"TRISKELE_TRACE_SLOW=0"})},
		{"metrics, traces 1 %, the slow and degraded kept", ratio},
		{"metrics, traces 100 %", traces},
	} {
		started := len(b.processes)
		one, err := b.gateway(ctx, kind.env, "triskele", "up", "--postgres", b.url)
		if err != nil {
			return err
		}
		five, err := b.five(ctx, kind.env...)
		if err != nil {
			return err
		}
		b.ways = append(b.ways, way{name: "five processes: " + kind.name, conn: five, processes: b.processes[started+1:]},
			way{name: "one process: " + kind.name, conn: one, processes: b.processes[started : started+1]})
	}
	return nil
}

// reportTelemetry is what docs/bench/telemetry.md says.
func (b *bench) reportTelemetry(ctx context.Context, s settings, clients, before string, measured []measurement) (string, error) {
	var server string
	if err := b.admin.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync')").Scan(&server); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# What telemetry costs

    make bench-telemetry RECALL_MEMORIES=%d CLIENTS=%s QUERIES=%d

- Date: %s
- Machine: %d cores, %s/%s, %s; %s; one-minute load average before %s, afterwards %s
- Memories: %d of 20 to 80 words, seed %d, in one namespace
- Queries: %d, 3 to 10 words of a memory, one in three with its title; 10 hits with contents, default legs, a budget of %v
- All programs run at the same time on one database. Each answers every query, in %d rounds in which they take turns. A
  client waits for its answer before it asks again. Spans go over OTLP to a collector on the same machine, which discards
  them; it received %d

"off" has no admin port and no exporter. The ratios are to "off" with as many clients and the same processes. Above 1 is
slower at p50 and p95; below 1 is less throughput.

Processor time is that of all processes of a way except PostgreSQL's, while they answered. It hardly depends on other
load.

| clients | telemetry | p50 | p95 | recalls/s | processor ms a recall | p50 ratio | p95 ratio | throughput ratio | processor ratio |
|---|---|---|---|---|---|---|---|---|---|
`, s.memories, clients, s.queries, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server, before, loadAverage(),
		s.memories, s.seed, s.queries, budget, rounds, b.sink.spans.Load())
	for _, m := range measured {
		processes, _, _ := strings.Cut(m.way, ":")
		without := measured[slices.IndexFunc(measured, func(o measurement) bool { return o.way == processes+": "+off && o.clients == m.clients })]
		ratio := func(percent int) float64 { return float64(m.at(percent)) / float64(without.at(percent)) }
		fmt.Fprintf(&out, "| %d | %s | %s | %s | %.0f | %s | %.3f | %.3f | %.3f | %.3f |\n", m.clients, m.way, ms(m.at(50)), ms(m.at(95)), m.perSecond(),
			ms(m.busy/time.Duration(len(m.times))), ratio(50), ratio(95), m.perSecond()/without.perSecond(), float64(m.busy)/float64(without.busy))
	}
	return out.String(), nil
}
