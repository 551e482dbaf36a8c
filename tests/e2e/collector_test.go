//go:build collector

package e2e_test

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	otelcol  = flag.String("collector", "", "an OpenTelemetry collector")
	promtool = flag.String("promtool", "", "Prometheus's promtool")
)

// TestShippedCollector has five processes send everything to a real collector with the configuration that is shipped: it keeps
// the recall that is degraded and next to none of the others, and counts them all.
func TestShippedCollector(t *testing.T) {
	file, otlp, metrics := filepath.Join(t.TempDir(), "traces.jsonl"), freeAddress(t), freeAddress(t)
	collector := exec.Command(*otelcol, "--config", filepath.Join(shipped, "collector.yaml"))
	collector.Env = append(os.Environ(), "COLLECTOR_OTLP="+otlp, "COLLECTOR_METRICS="+metrics, "COLLECTOR_FILE="+file, "COLLECTOR_BACKEND="+freeAddress(t),
		"COLLECTOR_WAIT=3s", "COLLECTOR_FLUSH=1s")
	output := background(t, collector)
	s := startWith(t, setup{env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + otlp, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=200"}})
	s.eventually("the collector is ready", func() bool { return strings.Contains(output.String(), "Everything is ready") })
	s.seed("collected")
	const ordinary = 50
	whole := map[string]bool{} // traces
	for range ordinary {
		start := time.Now()
		resp, err := s.ask("collected", 5*time.Second)
		if err != nil || resp.GetDegraded() {
			t.Fatalf("%v, %v", resp, err)
		}
		whole[resp.GetTraceId()] = time.Since(start) < 200*ms // no slow one
	}
	s.signal("graph", syscall.SIGKILL)
	degraded, err := s.ask("collected", 5*time.Second)
	if err != nil || !degraded.GetDegraded() {
		t.Fatalf("%v, %v", degraded, err)
	}
	kept := func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
	s.eventually("the degraded recall is kept", func() bool { return strings.Contains(kept(), degraded.GetTraceId()) })
	count := func() string {
		resp, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "triskele_spans_calls_total{") && strings.Contains(line, `span_name="search_memory"`) {
				return strings.TrimSpace(line)
			}
		}
		return string(body)
	}
	s.eventually("all recalls are counted", func() bool { return strings.HasSuffix(count(), fmt.Sprintf(" %d", ordinary+1)) })
	text := kept()
	others := 0
	for trace, quick := range whole {
		if quick && strings.Contains(text, trace) {
			others++
		}
	}
	if others > ordinary/5 {
		t.Errorf("%d of %d ordinary traces were kept; one in a hundred would do", others, ordinary)
	}
	for _, want := range []string{"retrieval graph", "cannot be reached", "lexical.search"} {
		if !strings.Contains(text, want) {
			t.Errorf("what is kept lacks %q", want)
		}
	}
}

// background starts somebody else's program, which ends with the test, and returns what it prints.
func background(t *testing.T, cmd *exec.Cmd) *log {
	t.Helper()
	output := &log{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), last(output.String(), 4000))
		}
	})
	return output
}

// TestShippedRules has promtool read everything there is for Prometheus, the dashboard's expressions included, and run the
// rules' tests. With a rule broken, they fail.
func TestShippedRules(t *testing.T) {
	run := func(dir string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), *promtool, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"check", "config", "prometheus.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := run(shipped, args...); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	type rule struct{ Record, Expr string }
	var rules []rule
	all := expressions(t)
	for i, place := range slices.Sorted(maps.Keys(all)) {
		rules = append(rules, rule{fmt.Sprintf("expression_%d", i), strings.ReplaceAll(all[place], "$__rate_interval", "5m")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "all", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, text := range map[string][]byte{"all.yaml": text, "alerts.yaml": nil, "alerts_test.yaml": nil} {
		if text == nil {
			if text, err = os.ReadFile(filepath.Join(shipped, file)); err != nil {
				t.Fatal(err)
			}
		}
		if file == "alerts.yaml" { // the dense leg would have to become a second slower
			text = []byte(strings.Replace(string(text), "> 0.02 + histogram_quantile", "> 1 + histogram_quantile", 1))
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(dir, "check", "rules", "all.yaml"); err != nil || !strings.Contains(out, fmt.Sprintf("%d rules found", len(rules))) {
		t.Errorf("expressions: %v\n%s", err, out)
	}
	if out, err := run(dir, "test", "rules", "alerts_test.yaml"); err == nil || !strings.Contains(out, "TriskeleLegSlower") {
		t.Errorf("the tests do not notice that a leg slowed by 40 ms raises no alert: %v\n%s", err, out)
	}
}
