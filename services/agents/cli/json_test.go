package cli_test

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestResultsAsJSON: what commands on a database print is JSON, and has what people are told.
func TestResultsAsJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "m.db")
	check := func(code, values int, has string, args ...string) {
		t.Helper()
		got := run("", append(args, "--json", "--sqlite="+file)...)
		if got.code != code {
			t.Errorf("%q: %+v", args, got)
		}
		decoder := json.NewDecoder(strings.NewReader(got.out))
		n := 0
		for ; ; n++ {
			var value any
			if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%q: %v in %s", args, err, got.out)
			}
		}
		if values >= 0 && n != values || values < 0 && n == 0 || !strings.Contains(got.out, has) {
			t.Errorf("%q: %d values, want %d and %s: %s", args, n, values, has, got.out)
		}
	}
	check(0, -1, `"track":"memory"`, "migrate", "up")
	check(0, 0, "", "migrate", "up")
	check(0, -1, `"state":"applied"`, "migrate", "status")
	check(0, 0, "", "migrate", "plan")
	b, err := backend.OpenSQLite(file, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, err := b.Memory().Insert(t.Context(), []record.Record{storetest.Record("n", "Teo Marsh keeps the Harbour Crane.", nil)}); err != nil {
		t.Fatal(err)
	}
	check(0, -1, `"index":"dense"`, "queue", "list")
	check(0, 1, `"tried_again": 0`, "queue", "retry")
	check(0, 1, `"embedded": 1`, "reembed", "--embedder=hashed?dims=64")
	check(0, 1, `"switched": true`, "reembed", "--embedder=hashed?dims=32")
	check(0, 1, `"status": "retired"`, "models", "list")
	check(0, 1, `"allowed": true`, "models", "embed-sensitive", "on")
	check(0, 1, `"allowed": false`, "models", "embed-sensitive", "off")
	check(0, 1, `"dimensions": 64`, "models", "prune")
	check(0, 1, `[]`, "models", "cancel")
	check(0, 1, `"language": "english"`, "lexical", "settings", "n")
	check(0, 1, `"concepts": `, "graph", "stats", "-n", "n")
	check(0, 1, `"on": false`, "graph", "extract", "-n", "n", "--off")
	check(1, 0, "", "graph", "extract", "-n", "n")
	check(1, 0, "", "graph", "show", "Nobody", "-n", "n")
	check(0, 1, `"on": false`, "curation", "off")
}
