package importer_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/importer"
)

// A memory of mem0 lasts until the end of its last day.
func TestMem0LastDay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mem0.json")
	if err := os.WriteFile(path, []byte(`[{"id":"a","memory":"Likes tea","expiration_date":"2030-01-31"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := importer.OpenMem0(t.Context(), path, "n")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, source)["mem0.json:1"].Memory.GetExpiresAt().AsTime().Format(time.RFC3339); got != "2030-02-01T00:00:00Z" {
		t.Errorf("got %s, want the end of the 31st of January", got)
	}
}
