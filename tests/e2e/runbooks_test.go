package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestRunbooksNameAlerts: every alert that is shipped has its runbook, and runbooks name no other.
func TestRunbooksNameAlerts(t *testing.T) {
	t.Parallel()
	named := func(pattern string, path ...string) []string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		return slices.Sorted(maps.Keys(names))
	}
	alerts, runbooks := named(`alert: (\w+)`, "deploy", "telemetry", "alerts.yaml"), named("`(Triskele[A-Z]\\w+)`", "docs", "runbooks.md")
	if len(alerts) == 0 || !slices.Equal(alerts, runbooks) {
		t.Errorf("alerts are %q, those in the runbooks %q", alerts, runbooks)
	}
}
