package measure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/tests/lab/measure"
)

func TestReadRunRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "E-graph.trec")
	if err := os.WriteFile(file, []byte("q Q0 x 1 1 tag\nq Q0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := measure.ReadRun(file); err == nil || !strings.Contains(err.Error(), "E-graph.trec:2: 2 columns") {
		t.Errorf("a broken run file: %v", err)
	}
}
