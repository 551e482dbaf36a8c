package e2e_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// shipped is the folder of what is meant for collectors, Prometheus and Grafana.
var shipped = filepath.Join("..", "..", "deploy", "telemetry")

// operators finds the address for operators in a process's log.
var operators = regexp.MustCompile(`serving the admin port"?.*?(127\.0\.0\.1:\d+)`)

// scrape returns what a process shows to Prometheus.
func (s *system) scrape(name string) string {
	s.t.Helper()
	return s.show(name, "/metrics")
}

// operators returns the address that a process serves its operators at.
func (s *system) operators(name string) string {
	s.t.Helper()
	address := operators.FindStringSubmatch(s.processes[name].log.String())
	if address == nil {
		s.t.Fatalf("%s does not say where it serves operators", name)
	}
	return address[1]
}

// show returns what a process shows to its operators.
func (s *system) show(name, path string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.operators(name)+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s of %s: %v, %d: %s", path, name, err, resp.StatusCode, body)
	}
	return string(body)
}

// expressions returns every PromQL expression that is shipped, by where it is.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	read := func(file string, into any, unmarshal func([]byte, any) error) {
		text, err := os.ReadFile(filepath.Join(shipped, file))
		if err == nil {
			err = unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	out := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	read("alerts.yaml", &rules, yaml.Unmarshal)
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			out[rule.Alert] = rule.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	read("dashboard.json", &dashboard, json.Unmarshal)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			out["panel "+panel.Title+", "+target.LegendFormat] = target.Expr
		}
	}
	return out
}

var (
	selectors = regexp.MustCompile(`\{[^}]*\}|\b(?:by|without|on|ignoring)\s*\([^)]*\)`)
	metrics   = regexp.MustCompile(`\b[a-z][a-z0-9]*_[a-z0-9_]+\b`)
	functions = []string{"histogram_quantile", "avg_over_time"}
)

// wanted returns the names of the metrics that what is shipped asks for, each with one of the places.
func wanted(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for place, expr := range expressions(t) {
		for _, name := range metrics.FindAllString(selectors.ReplaceAllString(strings.ReplaceAll(expr, "$__rate_interval", "5m"), " "), -1) {
			if !slices.Contains(functions, name) {
				out[name] = place
			}
		}
	}
	if len(out) < 25 {
		t.Fatalf("only %d metrics were found: %q", len(out), slices.Sorted(maps.Keys(out)))
	}
	return out
}

// wantShipped fails if what is shipped asks for a metric that no process shows. Those that begin with a prefix are another
// store's, and those of standbys are in TestStandby.
func wantShipped(t *testing.T, shown []string, others string) {
	t.Helper()
	all := "\n" + strings.Join(shown, "\n")
	for name, place := range wanted(t) {
		elsewhere := strings.HasPrefix(name, others) || strings.HasPrefix(name, "triskele_standby_") || strings.HasPrefix(name, "triskele_tokens_")
		if !elsewhere && !strings.Contains(all, "\n"+name+"{") && !strings.Contains(all, "\n"+name+" ") {
			t.Errorf("%s asks for %s, which no program shows", place, name)
		}
	}
}
