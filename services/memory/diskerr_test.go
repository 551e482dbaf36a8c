package memory_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// execute runs a statement on the fixture's engine.
func execute(t *testing.T, f *storetest.Fixture, postgres, sqlite string) {
	t.Helper()
	var err error
	if f.Engine == schema.Postgres {
		_, err = f.Pool.Exec(t.Context(), postgres)
	} else {
		_, err = f.DB.Write.ExecContext(t.Context(), sqlite)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fill lets the database grow no more. On PostgreSQL, where that takes a disk, the error is made.
func fill(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	execute(t, f, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'could not extend file "base/1/2": No space left on device' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON memory.memories FOR EACH ROW EXECUTE FUNCTION no_room()`,
		`PRAGMA max_page_count = 1`) // is raised to what there is
}

// TestTroublesOfTheDisk: a write that the disk does not take fails with words, what is stored is still read, and afterwards
// everything is as before.
func TestTroublesOfTheDisk(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		begin, end func(*testing.T, *storetest.Fixture)
		code       codes.Code
		words      string
	}{
		"full": {
			fill,
			func(t *testing.T, f *storetest.Fixture) {
				execute(t, f, `DROP TRIGGER no_room ON memory.memories`, `PRAGMA max_page_count = 1000000`)
			},
			codes.ResourceExhausted, "the disk of the database is full",
		},
		"read-only": {
			func(t *testing.T, f *storetest.Fixture) { readOnly(t, f, true) },
			func(t *testing.T, f *storetest.Fixture) { readOnly(t, f, false) },
			codes.FailedPrecondition, "the database or its disk is read-only",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
				client := f.Client(t)
				remember := func(content string) error {
					_, err := client.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: content}})
					return err
				}
				known := storetest.Record("n", "known before", nil)
				f.Insert(t, known)
				x.begin(t, f)
				// Large enough to need room.
				if err := remember(strings.Repeat("more words ", 3000)); status.Code(err) != x.code || !strings.Contains(err.Error(), x.words) {
					t.Errorf("remember: got %v, want %v: %s", err, x.code, x.words)
				}
				imports, err := client.Import(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_ = imports.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "n", Content: strings.Repeat("many words ", 3000)}}})
				if _, err := imports.CloseAndRecv(); status.Code(err) != x.code || !strings.Contains(err.Error(), x.words) {
					t.Errorf("import: got %v, want %v: %s", err, x.code, x.words)
				}
				got, err := client.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{known.ID.String()}, Query: "known"})
				if err != nil || len(got.GetMemories()) != 1 {
					t.Errorf("get: %v, %v", got, err)
				}
				x.end(t, f)
				if err := remember("known after"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func readOnly(t *testing.T, f *storetest.Fixture, on bool) {
	t.Helper()
	value := map[bool]string{true: "on", false: "off"}[on]
	// In its own transaction, which may write although none else may.
	execute(t, f, `BEGIN READ WRITE; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+value+`', current_database()); END $$; COMMIT`,
		`PRAGMA query_only = `+value)
	if f.Engine == schema.Postgres {
		f.Pool.Reset() // for connections that know
	}
}

// TestCallsEndWithoutADeadline: what others hold keeps no call for good, whatever it asks for.
func TestCallsEndWithoutADeadline(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	single := &triskelev1.Memory{Namespace: "n", Content: "x"}
	writes := map[string]func(context.Context, triskelev1.MemoryServiceServer) error{
		"Remember": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.Remember(ctx, &triskelev1.RememberRequest{Memory: single})
			return err
		},
		"Update": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.Update(ctx, &triskelev1.UpdateRequest{Namespace: "n", Id: id, Memory: single, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content"}}})
			return err
		},
		"Supersede": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.Supersede(ctx, &triskelev1.SupersedeRequest{Id: id, Replacement: single})
			return err
		},
		"Forget": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.Forget(ctx, &triskelev1.ForgetRequest{Namespace: "n", Ids: []string{id}})
			return err
		},
		"RevertDecision": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.RevertDecision(ctx, &triskelev1.RevertDecisionRequest{Namespace: "n", Id: id})
			return err
		},
		"RenameNamespace": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.RenameNamespace(ctx, &triskelev1.RenameNamespaceRequest{Namespace: "n", NewName: "m"})
			return err
		},
		"DeleteNamespace": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.DeleteNamespace(ctx, &triskelev1.DeleteNamespaceRequest{Namespace: "n"})
			return err
		},
		"Import": func(ctx context.Context, s triskelev1.MemoryServiceServer) error { return s.Import(&sender{ctx: ctx}) },
	}
	reads := map[string]func(context.Context, triskelev1.MemoryServiceServer) error{
		"Get": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.Get(ctx, &triskelev1.GetRequest{Namespace: "n", Ids: []string{id}})
			return err
		},
		"List": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.List(ctx, &triskelev1.ListRequest{Namespace: "n"})
			return err
		},
		"GetNamespace": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: "n", Statistics: true})
			return err
		},
		"ListNamespaces": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{})
			return err
		},
		"ListDecisions": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			_, err := s.ListDecisions(ctx, &triskelev1.ListDecisionsRequest{Namespace: "n"})
			return err
		},
		"Export": func(ctx context.Context, s triskelev1.MemoryServiceServer) error {
			return s.Export(&triskelev1.ExportRequest{Namespace: "n"}, receiver{ctx: ctx})
		},
	}
	if got, want := len(writes)+len(reads), len(triskelev1.MemoryService_ServiceDesc.Methods)+len(triskelev1.MemoryService_ServiceDesc.Streams); got != want {
		t.Errorf("%d calls are tried, there are %d", got, want)
	}
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		server := memory.NewServer(f.Memory).Limit(300*time.Millisecond, time.Minute)
		hold(t, f)
		for name, call := range writes {
			if err := call(t.Context(), server); !ended(err) {
				t.Errorf("%s: got %v, want an end by the server's own deadline", name, err)
			}
		}
		if f.Engine == schema.SQLite {
			return // where nothing keeps readers waiting
		}
		for name, call := range reads {
			if err := call(t.Context(), server); !ended(err) {
				t.Errorf("%s: got %v, want an end by the server's own deadline", name, err)
			}
		}
	})
}

// sender is the server's side of an import of one message.
type sender struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *sender) Context() context.Context                      { return s.ctx }
func (s *sender) SendAndClose(*triskelev1.ImportResponse) error { return nil }
func (s *sender) Recv() (*triskelev1.ImportRequest, error) {
	return &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "n", Content: "x"}}}, nil
}

// ended says whether an error is the end of a deadline, which the server's interceptor would tell as such.
func ended(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// hold keeps everybody else from all tables until the test ends.
func hold(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	if f.Engine == schema.SQLite {
		tx, err := f.DB.Write.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return
	}
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), `LOCK TABLE memory.memories, memory.namespaces, memory.curation_decisions IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
}

// TestLocksAreWaitedForWithinBounds: a caller of a write that others keep from being made learns that it was not made.
func TestLocksAreWaitedForWithinBounds(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		client := f.Client(t)
		if f.Engine == schema.SQLite { // another program has the file
			var number int
			var name, path string
			if err := f.DB.Read.QueryRowContext(t.Context(), `PRAGMA database_list`).Scan(&number, &name, &path); err != nil {
				t.Fatal(err)
			}
			other, err := sqlite.Open(filepath.Clean(path), f.Tel)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			execute(t, f, ``, `PRAGMA busy_timeout = 50`)
			hold(t, &storetest.Fixture{Engine: f.Engine, DB: other})
		} else {
			f.Memory.LockTime(50 * time.Millisecond)
			hold(t, f)
		}
		_, err := client.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: "x"}})
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "try again") {
			t.Errorf("got %v, want ABORTED", err)
		}
	})
}

// TestStatementTimeoutPostgres: a caller learns that the server ended a statement that waited for a lock, by a timeout of its configuration.
func TestStatementTimeoutPostgres(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	hold(t, f)
	execute(t, f, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 100', current_database()); END $$`, ``)
	for _, conn := range f.Pool.AcquireAllIdle(t.Context()) { // the one that holds the lock stays
		_ = conn.Conn().Close(t.Context())
		conn.Release()
	}
	_, err := f.Client(t).Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: "x"}})
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "statement_timeout") {
		t.Errorf("got %v, want DEADLINE_EXCEEDED by statement_timeout", err)
	}
}
