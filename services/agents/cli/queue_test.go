package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestDeadLetters follows a memory that an index has given up on: the doctor fails and says so, the list shows it without
// its text, and after the retry it is waiting like any other.
func TestDeadLetters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.db")
	database := "--sqlite=" + file
	must(t, "", "migrate", "up", database)
	b, err := backend.OpenSQLite(file, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	bad := storetest.Record("acme/bot", "the harbour crane", nil)
	if _, err := b.Memory().Insert(t.Context(), []record.Record{bad}); err != nil {
		t.Fatal(err)
	}
	tasks, err := b.Queue().Claim(t.Context(), "dense", 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if err := b.Queue().Fail(t.Context(), "dense", tasks[0], 0, true, "timed out"); err != nil {
		t.Fatal(err)
	}

	// The gateway is not there, which fails too; what counts is what is said of the queue.
	got := run("", "doctor", "--address=127.0.0.1:1", database)
	if got.code != 1 || !strings.Contains(got.err, "queue") || !strings.Contains(unwrapped(got.out), "fail queue dense of acme/bot: 0 waiting, 1 given up on; `triskele queue list --dead`") ||
		!strings.Contains(unwrapped(got.out), "warn queue graph of acme/bot: 1 waiting, the oldest for ") {
		t.Errorf("doctor: %+v", got)
	}
	list := must(t, "", "queue", "list", "--dead", database)
	wantContains(t, "list", list, bad.ID.String(), "dense", "given up", "acme/bot   timed out")
	if strings.Contains(list, "crane") || strings.Contains(list, "graph") {
		t.Errorf("list:\n%s", list)
	}
	wantContains(t, "list of all", must(t, "", "queue", "list", database), "dense", "graph  pending")
	wantContains(t, "list of another namespace", must(t, "", "queue", "list", "--namespace=other", database), "nothing\n")

	if got := run("", "queue", "list", "--limit=0", database); got.code != 2 || !strings.Contains(got.err, "--limit must be 1 or more") {
		t.Errorf("no limit: %+v", got)
	}
	wantContains(t, "retry of another index", must(t, "", "queue", "retry", "--index=graph", database), "0 memories are tried again")
	wantContains(t, "retry", must(t, "", "queue", "retry", "--index=dense", "--namespace=acme/bot", database), "1 memory is tried again")
	wantContains(t, "list after the retry", must(t, "", "queue", "list", "--dead", database), "nothing\n")
	if got := run("", "doctor", "--address=127.0.0.1:1", database); !strings.HasSuffix(got.err, "failed checks: gateway\n") {
		t.Errorf("doctor after the retry: %+v", got)
	}
}
