package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqlite"
)

// A snapshot gives each kind of column as it was, while others write, and changes nothing itself.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	db := open(t)
	id := uuid.New()
	change(t, db, `CREATE TABLE kinds (id BLOB, whole INTEGER, part REAL, text TEXT, bytes BLOB, yes INTEGER)`,
		fmt.Sprintf(`INSERT INTO kinds VALUES (x'%x', -5, 0.25, 'gr' || char(252) || 'n', x'00ff', 1), (x'%[1]x', 1 << 40, -1, '', NULL, 0), (x'%[1]x', 0, 0, 'last', x'', 0)`, id[:]))
	var got uuid.UUID
	var whole int64
	var part float64
	var text string
	var bytes []byte
	var yes bool
	read := func(s *sqlite.Snapshot) (rows []string) {
		if err := s.Each(t.Context(), `SELECT id, whole, part, text, bytes, yes FROM kinds WHERE text <> $2 AND whole > $1 ORDER BY rowid`, []any{int64(-10), "none"},
			[]any{&got, &whole, &part, &text, &bytes, &yes}, func() error {
				rows = append(rows, fmt.Sprintf("%t %d %g %q %v %t %t", got == id, whole, part, text, bytes, bytes == nil, yes))
				return nil
			}); err != nil {
			t.Error(err)
		}
		return rows
	}
	want := fmt.Sprint([]string{`true -5 0.25 "grün" [0 255] false true`, `true 1099511627776 -1 "" [] true false`, `true 0 0 "last" [] false false`})
	if err := db.Snapshot(t.Context(), func(s *sqlite.Snapshot) error {
		if got := fmt.Sprint(read(s)); got != want {
			t.Errorf("got the rows %s, want %s", got, want)
		}
		change(t, db, `DELETE FROM kinds`)
		if got := fmt.Sprint(read(s)); got != want {
			t.Errorf("after all were deleted: got the rows %s, want %s", got, want)
		}
		if err := s.Each(t.Context(), `INSERT INTO numbers VALUES (10)`, nil, nil, func() error { return nil }); err == nil {
			t.Error("a snapshot wrote")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Snapshot(t.Context(), func(s *sqlite.Snapshot) error {
		if got := read(s); len(got) != 0 {
			t.Errorf("got the rows %s, want none", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Errors of statements, of targets, of callers and of the context end a query.
func TestSnapshotErrors(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	own := errors.New("own")
	var n int64
	var id uuid.UUID
	var wrong struct{}
	nothing := func() error { return nil }
	if err := db.Snapshot(ctx, func(s *sqlite.Snapshot) error {
		for _, c := range []struct {
			err  error
			want string
		}{
			{s.Each(ctx, `SELECT absent FROM numbers`, nil, nil, nothing), "no such column: absent"},
			{s.Each(ctx, `SELECT n FROM numbers WHERE n = ?1`, []any{1.5}, []any{&n}, nothing), "an argument is of type float64"},
			{s.Each(ctx, `SELECT n FROM numbers`, nil, []any{&wrong}, nothing), "a target is of type *struct {}"},
			{s.Each(ctx, `SELECT n FROM numbers`, nil, []any{&id}, nothing), "a column is not an id"},
			{s.Each(ctx, `SELECT n FROM numbers`, nil, []any{&n}, func() error { return own }), own.Error()},
			{s.Each(ctx, `SELECT a.n FROM numbers a, numbers b, numbers c`, nil, []any{&n}, func() error {
				cancel()
				return nil
			}), context.Canceled.Error()},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("got the error %v, want %q in it", c.err, c.want)
			}
		}
		return own
	}); !errors.Is(err, own) {
		t.Errorf("got the error %v, want %v", err, own)
	}
	if err := db.Snapshot(ctx, func(*sqlite.Snapshot) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v, want %v", err, context.Canceled)
	}
}
