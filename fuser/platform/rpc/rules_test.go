package rpc_test

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestCompileRules counts what the first validation of requests allocates that no other test makes: to compile their rules
// takes thousands of objects.
func TestCompileRules(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(process.Service("test"), slog.New(slog.DiscardHandler))
	triskelev1.RegisterMemoryServiceServer(server, triskelev1.UnimplementedMemoryServiceServer{})
	server.CompileRules()
	for _, request := range []proto.Message{&triskelev1.ForgetRequest{}, &triskelev1.ListDecisionsRequest{}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = protovalidate.Validate(request)
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > 500 {
			t.Errorf("the first %T was validated with %d allocations", request, n)
		}
	}
}

// BenchmarkFirstRecall times the first call of a process, and the fastest of a hundred later ones. Only -benchtime 1x
// measures a first one.
func BenchmarkFirstRecall(b *testing.B) {
	server, conn, _ := start(b, returns(nil))
	server.CompileRules()
	client := triskelev1.NewRecallServiceClient(conn)
	recall := func() time.Duration {
		began := time.Now()
		if _, err := client.Recall(b.Context(), valid()); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	for b.Loop() {
		first, later := recall(), time.Hour
		for range 100 {
			later = min(later, recall())
		}
		b.ReportMetric(float64(first.Microseconds()), "first-µs")
		b.ReportMetric(float64(later.Microseconds()), "later-µs")
		b.ReportMetric(float64(first)/float64(later), "ratio")
	}
}
