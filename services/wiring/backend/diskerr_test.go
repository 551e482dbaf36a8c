package backend_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// statements are run on a database of a test's own.
func statements(t *testing.T, url string, texts ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, text := range texts {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func migrated(t *testing.T, url, path string) *backend.Backend {
	t.Helper()
	b, err := backend.Open(t.Context(), url, path, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExamineTriesToWrite: a database that takes no writes is found out, and one that does is left as it was.
func TestExamineTriesToWrite(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		for name, x := range map[string]struct {
			statements []string
			want       error
		}{
			"well":      {nil, nil},
			"read-only": {[]string{`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`}, diskerr.ErrReadOnly},
			"full": {[]string{
				`CREATE FUNCTION no_room() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$`,
				`CREATE EVENT TRIGGER no_room ON ddl_command_start WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION no_room()`,
			}, diskerr.ErrFull},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				url := pgtest.New(t)
				_ = migrated(t, url, "").Close()
				statements(t, url, x.statements...)
				b, err := backend.Open(t.Context(), url, "", storetest.Telemetry(t))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = b.Close() }()
				if e, err := b.Examine(t.Context()); err != nil || !errors.Is(e.WriteError, x.want) || e.Free != -1 {
					t.Errorf("got %v with %d bytes free, error %v; want %v", e.WriteError, e.Free, err, x.want)
				}
			})
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "t.db")
		b := migrated(t, "", path)
		e, err := b.Examine(t.Context())
		if err != nil || e.WriteError != nil || e.Free == 0 {
			t.Errorf("got %v with %d bytes free, error %v; want no write error", e.WriteError, e.Free, err)
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		if err != nil || len(files) != 3 || len(hidden) != 0 { // the file, its log, and the log's index
			t.Errorf("beside the file are %v and %v, error %v", files, hidden, err)
		}
	})
}

// TestConcern: a write that finds the disk full is what health tells of, from any part of the process.
func TestConcern(t *testing.T) {
	t.Parallel()
	const want = "the disk of the database is full: nothing can be stored"
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.New(t)
		b := migrated(t, url, "")
		statements(t, url, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$`,
			`CREATE TRIGGER no_room BEFORE INSERT ON memory.memories FOR EACH ROW EXECUTE FUNCTION no_room()`)
		concerned(t, b, want)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "t.db")
		b := migrated(t, "", path)
		if err := b.Fill(t.Context()); err != nil {
			t.Fatal(err)
		}
		concerned(t, b, want)
	})
}

func concerned(t *testing.T, b *backend.Backend, want string) {
	t.Helper()
	if got := b.Concern(); got != "" {
		t.Errorf("before: got %q, want none", got)
	}
	_, err := b.Memory().Insert(t.Context(), []record.Record{storetest.Record("n", strings.Repeat("more words ", 5000), nil)})
	if !errors.Is(err, diskerr.ErrFull) {
		t.Fatalf("got %v, want %v", err, diskerr.ErrFull)
	}
	if got := b.Concern(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := b.Memory().List(t.Context(), "n", record.Filter{}, memory.Cursor{}, 10); err != nil {
		t.Errorf("list: %v", err)
	}
}
