package memory_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestUndecodableRecordIsAnError damages one of two memories and reads them in every way there is.
func TestUndecodableRecordIsAnError(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		tried := 0
		for _, damage := range storetest.Damages {
			assignments := damage.Of(f.Engine)
			if assignments == "" {
				continue
			}
			tried++
			namespace := uuid.New().String()
			bad := storetest.Record(namespace, "private words", func(r *record.Record) { r.IdempotencyKey = "key" })
			f.Insert(t, bad, storetest.Record(namespace, "sound", nil))
			f.Corrupt(t, bad.ID, assignments)
			again := storetest.Record(namespace, "private words", func(r *record.Record) { r.IdempotencyKey = "key" })
			for name, read := range map[string]func() error{
				"get": func() error { _, err := f.Memory.Get(t.Context(), namespace, []uuid.UUID{bad.ID}); return err },
				"list": func() error {
					_, err := f.Memory.List(t.Context(), namespace, record.Filter{}, memory.Cursor{}, 10)
					return err
				},
				"scan": func() error {
					return f.Memory.Scan(t.Context(), namespace, 10, func([]record.Record) error { return nil })
				},
				"insert": func() error { _, err := f.Memory.Insert(t.Context(), []record.Record{again}); return err },
				"plan":   func() error { _, err := f.Memory.Plan(t.Context(), []record.Record{again}); return err },
				"update": func() error {
					_, err := f.Memory.Update(t.Context(), namespace, bad.ID, 0, func(*record.Record) error { return nil })
					return err
				},
				"supersede": func() error {
					_, _, err := f.Memory.Supersede(t.Context(), bad.ID, 0, storetest.Record(namespace, "new", nil))
					return err
				},
			} {
				if name == "list" && damage.Column == "expires_at" {
					continue // its condition on this column needs the value only in the database
				}
				err := read()
				var undecodable *record.UndecodableError
				if !errors.As(err, &undecodable) || undecodable.ID != bad.ID || undecodable.Namespace != namespace || undecodable.Column != damage.Column {
					t.Errorf("%s with %s: %v", name, assignments, err)
				}
			}
			// What need not be read can still be removed.
			if n, err := f.Memory.Forget(t.Context(), namespace, []uuid.UUID{bad.ID}); err != nil || n != 1 {
				t.Errorf("forget with %s: %d, %v", assignments, n, err)
			}
		}
		if tried < 3 {
			t.Errorf("only %d kinds of damage", tried)
		}
	})
}

// TestClientLearnsNoMoreThanThatItFailed looks at both sides of a call: the log says which memory, and nobody what it says.
func TestClientLearnsNoMoreThanThatItFailed(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var log bytes.Buffer
		client := f.ClientOf(t, slog.New(slog.NewTextHandler(&log, nil)))
		bad := storetest.Record("n", "private words", nil)
		f.Insert(t, bad)
		f.Corrupt(t, bad.ID, `links = '[{"target": "private"}]'`)
		_, err := client.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{bad.ID.String()}})
		if status.Code(err) != codes.DataLoss || strings.Contains(err.Error(), "private") || strings.Contains(err.Error(), "links") {
			t.Errorf("the client is told %v", err)
		}
		exported, err := client.Export(t.Context(), &triskelev1.ExportRequest{Namespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := exported.Recv(); status.Code(err) != codes.DataLoss {
			t.Errorf("an export ends with %v", err)
		}
		if text := log.String(); strings.Count(text, bad.ID.String()) != 2 || !strings.Contains(text, "column links") || strings.Contains(text, "private") {
			t.Errorf("the log says %s", text)
		}
	})
}

// TestMissingColumnIsAnError: a table that is not as its steps left it gives no empty answers.
func TestMissingColumnIsAnError(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		r := storetest.Record("n", "x", nil)
		f.Insert(t, r)
		var err error
		if f.Engine == schema.Postgres {
			_, err = f.Pool.Exec(t.Context(), `ALTER TABLE memory.memories DROP COLUMN links`)
		} else {
			_, err = f.DB.Write.ExecContext(t.Context(), `ALTER TABLE memories DROP COLUMN links`)
		}
		if err != nil {
			t.Fatal(err)
		}
		if found, err := f.Memory.Get(t.Context(), "n", []uuid.UUID{r.ID}); err == nil || !strings.Contains(err.Error(), "links") {
			t.Errorf("get: %v, %v", found, err)
		}
		if tasks, err := f.Queue.Claim(t.Context(), "graph", 10, 0); err == nil || !strings.Contains(err.Error(), "links") {
			t.Errorf("claim: %v, %v", tasks, err)
		}
	})
}
