package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/cli"
	"github.com/triskele/triskele/services/agents/spending"
)

// fileExporter writes what it receives as lines of JSON, as a collector's file exporter does.
type fileExporter struct {
	collectorpb.UnimplementedTraceServiceServer
	mu   sync.Mutex
	file *os.File
}

func (f *fileExporter) Export(_ context.Context, req *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	text, err := protojson.Marshal(req)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.file.Write(append(text, '\n'))
	return &collectorpb.ExportTraceServiceResponse{}, err
}

// spent is what `triskele budget` says, as JSON.
func spent(t *testing.T, args ...string) (report spending.Report) {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: os.Getenv, Now: time.Now}
	if code := cli.Run(t.Context(), append([]string{"budget", "--json", "--budgets", fmt.Sprintf("20ms,%v", unhurried)}, args...), env); code != 0 {
		t.Fatalf("triskele budget ends with %d: %s", code, &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// TestASlowLegIsNamed puts 100 ms between the gateway and the dense leg. `triskele budget` says so, by what five processes
// exported and by what the gateway remembers, and that 20 ms would not have been enough for it.
func TestASlowLegIsNamed(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "traces.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	listener, err := rpc.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, &fileExporter{file: file})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	var slow *proxy
	admin := freeAddress(t)
	s := startWith(t, setup{
		env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRICS_EXPORTER=none"},
		args: map[string][]string{"fuser": {"--admin", admin}},
		via: func(name, address string) string {
			if name != "dense" {
				return address
			}
			slow = newProxy(t, address)
			return slow.address()
		},
	})
	s.remember(&triskelev1.Memory{Namespace: "slow", Title: "Kestrel", Content: "The Kestrel project backs up at night."})
	s.awaitIndexes("slow")
	if _, err := slow.Toxics.AddToxicJson(strings.NewReader(`{"name": "slow", "type": "latency", "stream": "downstream", "attributes": {"latency": 100}}`)); err != nil {
		t.Fatal(err)
	}
	const recalls = 20
	for range recalls {
		resp, err := s.recall.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"slow"}, Query: "What does Kestrel do?", Budget: durationpb.New(unhurried)})
		if err != nil || resp.GetDegraded() {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	remembered := spent(t, "--admin", "http://"+admin)
	for name := range s.processes { // an orderly stop flushes what has not been sent
		s.signal(name, syscall.SIGTERM)
		_ = s.processes[name].cmd.Wait()
	}
	for source, report := range map[string]spending.Report{"the gateway": remembered, "OTLP": spent(t, "--otlp", file.Name())} {
		if report.Recalls != recalls || len(report.Parts) == 0 {
			t.Errorf("%s: %d recalls, %+v", source, report.Recalls, report.Parts)
			continue
		}
		if part := report.Parts[0]; part.Name != "retrieval dense" {
			t.Errorf("%s: most is spent on %+v", source, report.Parts)
		}
		for i, want := range []float64{1, 0} {
			if got := report.Budgets[i].Legs["dense"]; got.Share != want {
				t.Errorf("%s: of %v ms, dense would be dropped in %v", source, report.Budgets[i].Budget, got)
			}
		}
		t.Logf("%s: %+v", source, report.Parts)
	}
}
