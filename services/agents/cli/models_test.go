package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestModelCommands changes a database's embedding model twice and removes the first, and asks the doctor in between.
func TestModelCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.db")
	database := "--sqlite=" + file
	must(t, "", "migrate", "up", database)
	wantContains(t, "no models", must(t, "", "models", database), "none yet")
	b, err := backend.OpenSQLite(file, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, err := b.Memory().Insert(t.Context(), []record.Record{storetest.Record("n", "the harbour crane", nil), storetest.Record("n", "the cello lesson", nil)}); err != nil {
		t.Fatal(err)
	}
	doctor := func() string { return unwrapped(run("", "doctor", "--address=127.0.0.1:1", database).out) }

	wantContains(t, "the first model", must(t, "", "reembed", "--embedder=hashed?dims=64", database), "embedded 2 memories; builtin/hashed-ngrams-v1 (64 dimensions) is the active model now")
	wantContains(t, "doctor", doctor(), "ok model builtin/hashed-ngrams-v1 (64 dimensions) is active, with 2 vectors")
	wantContains(t, "the same again", must(t, "", "reembed", "--embedder=hashed?dims=64", database), "is the active model; embedded 0 memories")
	wantContains(t, "the second model", must(t, "", "reembed", "--embedder=hashed?dims=32", database), "(32 dimensions) is the active model now", "models prune")
	wantContains(t, "doctor after the switch", doctor(), "warn model builtin/hashed-ngrams-v1 (64 dimensions) is retired, with 2 vectors: ", "(32 dimensions) is active")
	wantContains(t, "up with the model before", run("", "up", "--listen=127.0.0.1:0", "--embedder=hashed?dims=64", database).err, "run `triskele reembed`")
	wantContains(t, "prune", must(t, "", "models", "prune", database), "removed builtin/hashed-ngrams-v1 (64 dimensions) and 2 vectors")
	if left := must(t, "", "models", database); strings.Contains(left, "retired") || strings.Contains(doctor(), "retired") {
		t.Errorf("left:\n%s", left)
	}
	wantContains(t, "cancel", must(t, "", "models", "cancel", database), "nothing to do")
	if got := run("", "models", "--sqlite="+filepath.Join(t.TempDir(), "none.db")); got.code != 1 || !strings.Contains(got.err, "no database exists at") {
		t.Errorf("no database: %+v", got)
	}
}

// unwrapped has one space between words, wherever the lines end.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }
