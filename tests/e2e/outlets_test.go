package e2e_test

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

// outlets are the ways out of the processes, each with what came out by it.
type outlets struct {
	mu     sync.Mutex
	pieces map[string][]string
}

func (o *outlets) add(way string, pieces ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pieces[way] = append(o.pieces[way], pieces...)
}

// find returns an excerpt of the first piece with a word that came out by a way: as it is, in other letter case, or in
// hexadecimal digits.
func (o *outlets) find(way, word string) (excerpt string, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, piece := range o.pieces[way] {
		piece := strings.ToLower(piece)
		for _, form := range []string{word, hex.EncodeToString([]byte(word))} {
			if i := strings.Index(piece, form); i >= 0 {
				return piece[max(0, i-200):min(len(piece), i+200)], true
			}
		}
	}
	return "", false
}

// wantOnly fails if a word came out by any other way.
func (o *outlets) wantOnly(t *testing.T, word string, ways ...string) {
	t.Helper()
	for way := range o.pieces {
		if excerpt, found := o.find(way, word); found && !slices.Contains(ways, way) {
			t.Errorf("%s came out by %s: ...%s...", word, way, excerpt)
		}
	}
}

// want fails if a word did not come out by a way. Without it, that other words did not would mean nothing.
func (o *outlets) want(t *testing.T, way string, words ...string) {
	t.Helper()
	for _, word := range words {
		if _, found := o.find(way, strings.ToLower(word)); !found {
			t.Errorf("%s did not come out by %s, among %d pieces", word, way, len(o.pieces[way]))
		}
	}
}

// traceSink, metricSink and logSink are what an OpenTelemetry collector offers.
type traceSink struct {
	tracespb.UnimplementedTraceServiceServer
	to *outlets
}

func (s traceSink) Export(_ context.Context, req *tracespb.ExportTraceServiceRequest) (*tracespb.ExportTraceServiceResponse, error) {
	s.to.add("traces", req.String())
	return &tracespb.ExportTraceServiceResponse{}, nil
}

type metricSink struct {
	metricspb.UnimplementedMetricsServiceServer
	to *outlets
}

func (s metricSink) Export(_ context.Context, req *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	s.to.add("metrics", req.String())
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

type logSink struct {
	logspb.UnimplementedLogsServiceServer
	to *outlets
}

func (s logSink) Export(_ context.Context, req *logspb.ExportLogsServiceRequest) (*logspb.ExportLogsServiceResponse, error) {
	s.to.add("exported logs", req.String())
	return &logspb.ExportLogsServiceResponse{}, nil
}

// collect runs a collector until the test ends, and returns the variables that send everything there, and have metrics served.
func collect(t *testing.T, to *outlets) []string {
	t.Helper()
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tracespb.RegisterTraceServiceServer(server, traceSink{to: to})
	metricspb.RegisterMetricsServiceServer(server, metricSink{to: to})
	logspb.RegisterLogsServiceServer(server, logSink{to: to})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRIC_EXPORT_INTERVAL=1000", "TRISKELE_ADMIN=127.0.0.1:0"}
}
