package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	modernc "modernc.org/sqlite"

	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// open opens a file with a table of the numbers 1 to 9.
func open(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "t.db"), storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	change(t, db, `CREATE TABLE numbers (n INTEGER)`, `INSERT INTO numbers VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)`)
	return db
}

func change(t *testing.T, db *sqlite.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// counting is SQLite's own driver, with counts of the statements that it compiles and of those that are open.
type counting struct {
	modernc.Driver
	compiled, open atomic.Int64
}

func (c *counting) Open(dsn string) (driver.Conn, error) {
	conn, err := c.Driver.Open(dsn)
	return countingConn{conn.(sqlite.Connection), c}, err
}

type countingConn struct {
	sqlite.Connection
	to *counting
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Connection.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.to.compiled.Add(1)
	c.to.open.Add(1)
	return countingStmt{s.(statement), c.to}, nil
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countingStmt struct {
	statement
	to *counting
}

func (s countingStmt) Close() error {
	s.to.open.Add(-1)
	return s.statement.Close()
}

// counted opens one connection to an empty database.
func counted(t *testing.T) (*sql.DB, *counting) {
	t.Helper()
	count := &counting{}
	db := sql.OpenDB(sqlite.Keeper(count, ":memory:"))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil || count.open.Load() != 0 {
			t.Errorf("%d statements are open after the connection was closed, %v", count.open.Load(), err)
		}
	})
	return db, count
}

// TestStatementsAreKept: a statement is compiled once for a connection, whatever its arguments, also in transactions.
func TestStatementsAreKept(t *testing.T) {
	t.Parallel()
	db, count := counted(t)
	for i := range 20 {
		var one, other int
		if err := db.QueryRowContext(t.Context(), `SELECT ? + 1`, i).Scan(&one); err != nil || one != i+1 {
			t.Fatalf("%d + 1 is %d, %v", i, one, err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS numbers (n INTEGER)`); err != nil {
			t.Fatal(err)
		}
		if err := sqlite.ExecEach(t.Context(), tx, `INSERT INTO numbers VALUES (?)`, []int{i, i}, func(n int) []any { return []any{n} }); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRowContext(t.Context(), `SELECT ? + 2`, i).Scan(&other); err != nil || other != i+2 {
			t.Fatalf("%d + 2 is %d, %v", i, other, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if n := count.compiled.Load(); n != 4 {
		t.Errorf("4 statements, run 20 times each, were compiled %d times", n)
	}
}

// TestStatementInUse: a statement that is asked for while its rows are read is another one.
func TestStatementInUse(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx, err := db.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	numbers := func(each func(n int)) {
		rows, err := tx.QueryContext(t.Context(), `SELECT n FROM numbers ORDER BY n`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var n int
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			each(n)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		var pairs, sum int
		numbers(func(a int) { numbers(func(b int) { pairs, sum = pairs+1, sum+a*b }) })
		if pairs != 81 || sum != 45*45 {
			t.Errorf("got %d pairs with a sum of %d, want 81 and 2025", pairs, sum)
		}
	}
}

// TestStatementsOfManyCallers: more queries than are kept, from several callers at a time, each with its own answer.
func TestStatementsOfManyCallers(t *testing.T) {
	t.Parallel()
	db := open(t)
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		callers.Go(func() {
			for {
				i := int(next.Add(1))
				if i > sqlite.MaxStatements+100 {
					return
				}
				var got int
				query := fmt.Sprintf(`SELECT n + %d FROM numbers WHERE n = ?`, i)
				for n := range 2 {
					if err := db.Read.QueryRowContext(t.Context(), query, n+1).Scan(&got); err != nil || got != n+1+i {
						t.Errorf("%s with %d: %d, %v", query, n+1, got, err)
					}
				}
			}
		})
	}
	callers.Wait()
}

// TestNewStatementsAreKept: statements are bounded, and queries that were asked once do not keep those that are asked often from being compiled once.
func TestNewStatementsAreKept(t *testing.T) {
	t.Parallel()
	db, count := counted(t)
	var got int
	ask := func(query string) {
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for i := range sqlite.MaxStatements + 10 {
		ask(fmt.Sprintf(`SELECT %d`, i))
		if n := count.open.Load(); n > sqlite.MaxStatements {
			t.Fatalf("%d statements are open, want at most %d", n, sqlite.MaxStatements)
		}
	}
	before := count.compiled.Load()
	for range 20 {
		ask(`SELECT -1`)
	}
	if n := count.compiled.Load() - before; n != 1 {
		t.Errorf("a query that is run 20 times was compiled %d times, want once", n)
	}
}

// TestRowsOutliveTheirStatement: what is being read is read to its end, whether or not its statement is still kept.
func TestRowsOutliveTheirStatement(t *testing.T) {
	t.Parallel()
	db := open(t)
	rows, err := db.Read.QueryContext(t.Context(), `SELECT n FROM numbers`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for i := range sqlite.MaxStatements {
		var got int
		if err := db.Read.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %d`, i)).Scan(&got); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	for rows.Next() {
		read++
	}
	if err := rows.Err(); err != nil || read != 9 {
		t.Errorf("got %d rows, error %v; want 9", read, err)
	}
}

// TestStatementThatDoesNotCompile: its error is the database's, it is not kept, and once it compiles, it runs.
func TestStatementThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	db := open(t)
	const query = `SELECT count(*) FROM letters`
	var n int
	for what, err := range map[string]error{
		"a row": db.Read.QueryRowContext(t.Context(), query).Scan(&n),
		"rows":  func() error { rows, err := db.Read.QueryContext(t.Context(), query); _ = rows; return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "no such table: letters") {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := db.Read.QueryRowContext(gone, `SELECT 1`).Scan(&n); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller who has gone: %v", err)
	}
	change(t, db, `CREATE TABLE letters (l TEXT)`)
	if err := db.Read.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d letters, %v", n, err)
	}
}

// TestKeptStatementsFollowTheSchema: what is kept sees columns, indexes and tables that come and go.
func TestKeptStatementsFollowTheSchema(t *testing.T) {
	t.Parallel()
	db := open(t)
	columns := func() ([]string, error) {
		rows, err := db.Read.QueryContext(t.Context(), `SELECT * FROM numbers WHERE n > 3`)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		count := 0
		for rows.Next() {
			count++
		}
		if err := errors.Join(err, rows.Err()); err != nil {
			return nil, err
		}
		if count != 6 {
			return nil, fmt.Errorf("%d rows", count)
		}
		return names, nil
	}
	for _, step := range []struct {
		change string
		want   []string // columns; nil if the table is gone
	}{
		{`SELECT 1`, []string{"n"}},
		{`ALTER TABLE numbers ADD COLUMN name TEXT`, []string{"n", "name"}},
		{`CREATE INDEX by_number ON numbers (n)`, []string{"n", "name"}},
		{`DROP INDEX by_number`, []string{"n", "name"}},
		{`ALTER TABLE numbers RENAME TO others`, nil},
		{`CREATE TABLE numbers AS SELECT name, n FROM others`, []string{"name", "n"}},
	} {
		change(t, db, step.change)
		for range 2 {
			if got, err := columns(); !slices.Equal(got, step.want) || (err != nil) != (step.want == nil) {
				t.Errorf("after %s: %v, %v", step.change, got, err)
			}
		}
	}
}
