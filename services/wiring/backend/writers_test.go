package backend_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestWritersLeaveConnections: while writers wait for a lock, as during the rename of a namespace, memories are read.
func TestWritersLeaveConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	limit := "?pool_max_conns=4"
	if strings.Contains(url, "?") {
		limit = "&pool_max_conns=4"
	}
	b := migrated(t, url+limit, "")
	memories := b.Memory()
	first := storetest.Record("ns", "the first", nil)
	if _, err := memories.Insert(t.Context(), []record.Record{first}); err != nil {
		t.Fatal(err)
	}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	holder, watcher := connect(), connect() // within a transaction, activity is seen once
	if _, err := holder.Exec(t.Context(), `BEGIN; SELECT FROM memory.namespaces WHERE name = 'ns' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer func() { _, _ = holder.Exec(context.Background(), `ROLLBACK`) }()
	for range 8 {
		writing.Go(func() {
			if _, err := memories.Insert(context.Background(), []record.Record{storetest.Record("ns", "another", nil)}); err != nil {
				t.Errorf("a write that waited: %v", err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for waiting := 0; waiting < 3; {
		if err := watcher.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	hurry, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if got, err := memories.Get(hurry, "ns", []uuid.UUID{first.ID}); err != nil || len(got) != 1 {
		t.Errorf("got %d memories, %v; want the first one while others write", len(got), err)
	}
}
