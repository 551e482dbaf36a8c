package backend_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// indexed opens a database with three memories that are in all indexes.
func indexed(t *testing.T, url, path string) *backend.Backend {
	t.Helper()
	b, err := backend.Open(t.Context(), url, path, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	index, err := b.Dense(t.Context(), b.Images(t.Context(), storetest.Strict(), storetest.Log()), embed.NewHashed())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Memory().Insert(t.Context(), []record.Record{
		storetest.Record("birds", "The kestrel nests on the tower.", nil),
		storetest.Record("birds", "The osprey nests on the mast.", nil),
		storetest.Record("birds", "The heron is private.", func(r *record.Record) { r.Sensitive = true }),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go b.Worker("dense", index, storetest.Log()).Run(ctx)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		status, err := index.Status(t.Context(), "birds")
		if err != nil {
			t.Fatal(err)
		}
		if status.Pending == 0 {
			return b
		}
		if time.Now().After(deadline) {
			t.Fatal("the vectors do not come")
		}
	}
}

func examine(t *testing.T, b *backend.Backend) backend.Examination {
	t.Helper()
	e, err := b.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func healthy(e backend.Examination) bool {
	return len(e.TooOld)+len(e.Damage)+len(e.Invalid)+len(e.UnindexedIn)+len(e.Standbys) == 0 && !e.NoVectorIndex && !e.IsStandby && e.Vectorless == 0
}

// TestExamineSQLite breaks one thing after the other, at last the file.
func TestExamineSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	b := indexed(t, "", path)
	if e := examine(t, b); !healthy(e) || e.Clock != 0 {
		t.Errorf("%+v", e)
	}
	db, err := sqlite.Open(path, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []struct {
		statement string
		seen      func(backend.Examination) bool
	}{
		{`DELETE FROM lexical_documents WHERE memory_id = (SELECT min(id) FROM memories)`,
			func(e backend.Examination) bool { return slices.Equal(e.UnindexedIn, []string{"birds"}) }},
		{`DELETE FROM dense_vectors WHERE memory_id = (SELECT min(memory_id) FROM dense_vectors)`, func(e backend.Examination) bool { return e.Vectorless == 1 }},
	} {
		if _, err := db.Write.ExecContext(t.Context(), damage.statement); err != nil {
			t.Fatalf("%s: %v", damage.statement, err)
		}
		if e := examine(t, b); !damage.seen(e) {
			t.Errorf("after %s: %+v", damage.statement, e)
		}
	}
	var roots string // pages of the memories' table and indexes
	var size int64
	if err := db.Read.QueryRowContext(t.Context(), `SELECT json_group_array(rootpage), page_size FROM sqlite_schema, pragma_page_size WHERE tbl_name = 'memories' AND rootpage > 0`).
		Scan(&roots, &size); err != nil {
		t.Fatal(err)
	}
	var pages []int64
	if err := errors.Join(json.Unmarshal([]byte(roots), &pages), db.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		_, failed := file.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (page-1)*size)
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if b, err = backend.Open(t.Context(), "", path, storetest.Telemetry(t)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if e := examine(t, b); len(e.Damage) == 0 {
		t.Errorf("after the file was overwritten: %+v", e)
	}
}

// TestExaminePostgres breaks one thing after the other.
func TestExaminePostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	b := indexed(t, url, "")
	if e := examine(t, b); !healthy(e) || e.Clock.Abs() > time.Minute {
		t.Fatalf("%+v", e)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, damage := range []struct {
		statement string
		seen      func(backend.Examination) bool
	}{
		{`DELETE FROM lexical.documents WHERE memory_id = (SELECT min(id::text)::uuid FROM memory.memories)`,
			func(e backend.Examination) bool { return slices.Equal(e.UnindexedIn, []string{"birds"}) }},
		{`DELETE FROM dense.vectors WHERE memory_id = (SELECT min(memory_id::text)::uuid FROM dense.vectors)`, func(e backend.Examination) bool { return e.Vectorless == 1 }},
		{`UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT indexrelid FROM pg_index WHERE indrelid = 'dense.vectors_3'::regclass AND NOT indisprimary LIMIT 1)`,
			func(e backend.Examination) bool { return len(e.Invalid) == 1 }},
		{`UPDATE dense.models SET indexed = true`, func(e backend.Examination) bool { return e.NoVectorIndex }},
	} {
		if _, err := conn.Exec(t.Context(), damage.statement); err != nil {
			t.Fatalf("%s: %v", damage.statement, err)
		}
		if e := examine(t, b); !damage.seen(e) {
			t.Errorf("after %s: %+v", damage.statement, e)
		}
	}
}

// TestCheckRefusesWhoSeesNothing: a user who may read every table, and from whom row security hides the memories, would find nothing
// in the queue and make a backup of nothing.
func TestCheckRefusesWhoSeesNothing(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	indexed(t, database, "")
	reader := pgtest.Reader(t, database)
	b, err := backend.Open(t.Context(), reader, "", storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "BYPASSRLS") {
		t.Errorf("Check as a user who sees nothing: %v, want an error that names BYPASSRLS", err)
	}
}
