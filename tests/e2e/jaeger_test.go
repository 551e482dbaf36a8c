//go:build collector

package e2e_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/spending"
)

var jaeger = flag.String("jaeger", "", "Jaeger's all-in-one")

// TestShippedToJaeger has five processes send everything to a real Jaeger. What `triskele budget` reads of its answer is what the
// gateway remembers: as many recalls, as long ones, and the same parts.
func TestShippedToJaeger(t *testing.T) {
	begun, otlp, page := time.Now().UTC(), freeAddress(t), freeAddress(t)
	cmd := exec.Command(*jaeger, "--collector.otlp.grpc.host-port", otlp, "--collector.otlp.http.host-port", freeAddress(t),
		"--query.http-server.host-port", page, "--query.grpc-server.host-port", freeAddress(t), "--admin.http.host-port", freeAddress(t),
		"--collector.grpc-server.host-port", freeAddress(t), "--collector.http-server.host-port", freeAddress(t))
	background(t, cmd)
	admin := freeAddress(t)
	s := startWith(t, setup{
		env:  []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + otlp, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=200"},
		args: map[string][]string{"fuser": {"--admin", admin}},
	})
	s.eventually("Jaeger answers", func() bool {
		resp, err := http.Get("http://" + page + "/api/services")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	s.seed("jaeger")
	const recalls = 30
	for range recalls {
		if resp, err := s.ask("jaeger", 5*time.Second); err != nil || resp.GetDegraded() {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	for name := range s.processes { // an orderly stop flushes what has not been sent
		if name != "fuser" {
			s.signal(name, syscall.SIGTERM)
			_ = s.processes[name].cmd.Wait()
		}
	}
	var theirs spending.Report
	file := filepath.Join(t.TempDir(), "traces.json")
	s.eventually("Jaeger has every recall, from every process", func() bool {
		resp, err := http.Get("http://" + page + "/api/v3/traces?" + url.Values{
			"query.service_name": {"fuser"}, "query.operation_name": {"search_memory"}, "query.search_depth": {"2000"},
			"query.start_time_min": {begun.Format(time.RFC3339Nano)}, "query.start_time_max": {time.Now().UTC().Format(time.RFC3339Nano)},
		}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close(), os.WriteFile(file, answer, 0o600)); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK { // it has none yet
			return false
		}
		theirs = spent(t, "--otlp", file)
		services := map[string]bool{}
		for _, hop := range theirs.Hops {
			services[hop.Service] = true
		}
		return theirs.Recalls == recalls && len(services) == len(s.processes)
	})
	ours := spent(t, "--admin", "http://"+admin)
	if ours.Recalls != recalls {
		t.Errorf("the gateway remembers %d recalls", ours.Recalls)
	}
	// Jaeger's span of a recall and the gateway's outline of it begin and end a few lines of code apart.
	if ratio := theirs.Took.P50 / ours.Took.P50; ratio < 0.8 || ratio > 1.25 {
		t.Errorf("p50 is %v ms by Jaeger, %v by the gateway", theirs.Took.P50, ours.Took.P50)
	}
}
