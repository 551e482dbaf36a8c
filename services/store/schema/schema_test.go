package schema_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/schema"
)

// database is an empty database that any number of handles can be opened on.
type database struct {
	t      *testing.T
	engine schema.Engine
	name   string // URL or path
}

// run calls fn as a subtest for each engine.
func run(t *testing.T, fn func(t *testing.T, d database)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, database{t, schema.Postgres, pgtest.Empty(t)})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, database{t, schema.SQLite, filepath.Join(t.TempDir(), "test.db")})
	})
}

// open returns a handle as another process would have it.
func (d database) open() *sql.DB {
	d.t.Helper()
	driver, name := "pgx", d.name
	if d.engine == schema.SQLite {
		driver, name = "sqlite", "file:"+d.name+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		d.t.Fatal(err)
	}
	if d.engine == schema.SQLite {
		db.SetMaxOpenConns(1)
		if err := db.PingContext(d.t.Context()); err != nil { // sets WAL, for which handles must not wait for each other
			d.t.Fatal(err)
		}
	}
	d.t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func up(t *testing.T, db *sql.DB, engine schema.Engine) []schema.Step {
	t.Helper()
	steps, err := schema.Up(t.Context(), db, engine)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestPlanIsWhatUpDoesAndChangesNothing(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, d database) {
		db := d.open()
		objects := func() (n int) {
			query := `SELECT count(*) FROM sqlite_master`
			if d.engine == schema.Postgres {
				query = `SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_proc) + (SELECT count(*) FROM pg_namespace)`
			}
			if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := objects()
		planned, err := schema.Plan(t.Context(), db, d.engine)
		if err != nil {
			t.Fatal(err)
		}
		status, err := schema.Status(t.Context(), db, d.engine)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, schema.Check(t.Context(), db, d.engine), "lacks step 302_memory.sql of track memory", "triskele migrate up")
		if after := objects(); after != before {
			t.Errorf("looking made %d objects", after-before)
		}
		for i, step := range up(t, db, d.engine) {
			if p := planned[i]; p.Track != step.Track || p.Name != step.Name || !p.Transaction || !strings.Contains(p.SQL, ";") || strings.Contains(p.SQL, "goose") || strings.Contains(p.SQL, "DROP SCHEMA") {
				t.Errorf("step %d is %v, was planned as %v:\n%s", i, step, p.Step, p.SQL)
			}
			if status[i].Name != step.Name || status[i].State != schema.Missing {
				t.Errorf("status %v before %v", status[i], step)
			}
		}
		if planned, err = schema.Plan(t.Context(), db, d.engine); err != nil || len(planned) != 0 {
			t.Errorf("plan of nothing to do: %v, %v", planned, err)
		}
		if err := schema.Check(t.Context(), db, d.engine); err != nil {
			t.Error(err)
		}
	})
}

func TestUpByManyAtOnce(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, d database) {
		const processes = 4
		// A step that would succeed twice, and must not.
		files := fstest.MapFS{
			"memory/postgres/001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n integer);")},
			"memory/postgres/002_b.sql": {Data: []byte("-- +goose Up\nINSERT INTO a VALUES (1);")},
		}
		for path, file := range files {
			files[strings.Replace(path, "postgres", "sqlite", 1)] = file
		}
		handles := make([]*sql.DB, processes)
		for i := range handles {
			handles[i] = d.open()
		}
		var mu sync.Mutex
		applied := map[string]int{}
		var wg sync.WaitGroup
		for _, db := range handles {
			wg.Go(func() {
				steps, err := schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, step := range steps {
					applied[step.Name]++
				}
			})
		}
		wg.Wait()
		var rows int
		if err := handles[0].QueryRowContext(t.Context(), `SELECT count(*) FROM a`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if rows != 1 || applied["001_a.sql"] != 1 || applied["002_b.sql"] != 1 {
			t.Errorf("%d rows, applied %v", rows, applied)
		}
	})
}

func TestOneReleaseNewerIsToleratedAndTwoAreNot(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, d database) {
		db := d.open()
		up(t, db, d.engine)
		check := func() error { return schema.Check(t.Context(), db, d.engine, "memory", "lexical") }
		all := steps(t)
		next := all[len(all)-1]/100*100 + 100
		for _, version := range []int64{next, next + 1, next + 99} { // a release may bring a track several steps
			for _, track := range []string{"memory", "lexical"} {
				exec(t, db, fmt.Sprintf(`INSERT INTO schema_version_%s (version_id, is_applied) VALUES (%d, true)`, track, version))
				if err := check(); err != nil {
					t.Errorf("one release newer: %v", err)
				}
			}
		}
		steps, err := schema.Status(t.Context(), db, d.engine)
		if err != nil || !slices.Contains(steps, schema.Step{Track: "memory", Version: next, Name: fmt.Sprint(next), State: schema.Newer}) {
			t.Errorf("status %v, %v", steps, err)
		}
		exec(t, db, fmt.Sprintf(`INSERT INTO schema_version_lexical (version_id, is_applied) VALUES (%d, true)`, next+100))
		wantError(t, check(), "too new", fmt.Sprint(next+100), "lexical", "newer program")
		if err := schema.Check(t.Context(), db, d.engine, "memory"); err != nil {
			t.Errorf("a track that the service does not use: %v", err)
		}
		_, err = schema.Up(t.Context(), db, d.engine)
		wantError(t, err, "too new")
		_, err = schema.Plan(t.Context(), db, d.engine)
		wantError(t, err, "too new")
	})
}

// TestTooOldIsRefused: steps from before the first one there is lead nowhere, and nothing is changed.
func TestTooOldIsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, d database) {
		old := fstest.MapFS{}
		for _, path := range []string{"memory/postgres/001_memories.sql", "memory/sqlite/001_memories.sql"} {
			old[path] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE old (n integer);")}
		}
		db := d.open()
		if _, err := schema.NewMigrations(old, "memory").Up(t.Context(), db, d.engine); err != nil {
			t.Fatal(err)
		}
		steps, err := schema.Up(t.Context(), db, d.engine)
		if len(steps) > 0 {
			t.Errorf("steps applied: got %v, want none", steps)
		}
		says := []string{"too old", "step 001 of track memory", "`triskele export`", "`triskele import`"}
		wantError(t, err, says...)
		wantError(t, schema.Check(t.Context(), db, d.engine, "memory"), says...)
		_, err = schema.Plan(t.Context(), db, d.engine)
		wantError(t, err, says...)
	})
}

// TestDeadlockedStepIsTriedAgain runs steps that PostgreSQL's deadlock detector stops, the second of them always.
func TestDeadlockedStepIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := database{t, schema.Postgres, pgtest.Empty(t)}
	db := d.open()
	step := "-- +goose Up\n-- +goose StatementBegin\nDO $$ BEGIN\nIF nextval('memory.tries') %s THEN\nRAISE EXCEPTION 'waiting' USING ERRCODE = '%s';\nEND IF;\nEND $$;\n-- +goose StatementEnd\n"
	files := fstest.MapFS{
		"memory/postgres/001_a.sql": {Data: []byte("-- +goose Up\nCREATE SCHEMA memory;\nCREATE SEQUENCE memory.tries;")},
		"memory/postgres/002_b.sql": {Data: fmt.Appendf(nil, step, "< 3", "40P01")},
		"memory/postgres/003_c.sql": {Data: fmt.Appendf(nil, step, "> 0", "40P01")},
	}
	tries := func() (n int64) {
		if err := db.QueryRowContext(t.Context(), `SELECT last_value FROM memory.tries`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	done, err := schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine)
	wantError(t, err, "step 003_c.sql of track memory", "40P01")
	if n := tries(); len(done) != 2 || n < 5 || n > 100 {
		t.Errorf("%v after %d tries", done, n)
	}
	before := tries()
	files["memory/postgres/003_c.sql"] = &fstest.MapFile{Data: fmt.Appendf(nil, step, "> 0", "40001")}
	_, err = schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine)
	wantError(t, err, "step 003_c.sql of track memory", "40001")
	if n := tries() - before; n != 1 {
		t.Errorf("another error was tried %d times", n)
	}
}

// TestStepGivesWayToReaders migrates a table that a transaction goes on reading. Meanwhile others read it too, all of them,
// though they come after the step.
func TestStepGivesWayToReaders(t *testing.T) {
	t.Parallel()
	d := database{t, schema.Postgres, pgtest.Empty(t)}
	db := d.open()
	files := fstest.MapFS{
		"memory/postgres/001_a.sql": {Data: []byte("-- +goose Up\nCREATE SCHEMA memory;\nCREATE TABLE memory.a (n integer);")},
		"memory/postgres/002_b.sql": {Data: []byte("-- +goose Up\nALTER TABLE memory.a ADD m integer NOT NULL DEFAULT 7;")},
	}
	first := schema.NewMigrations(fstest.MapFS{"memory/postgres/001_a.sql": files["memory/postgres/001_a.sql"]}, "memory")
	if _, err := first.Up(t.Context(), db, d.engine); err != nil {
		t.Fatal(err)
	}
	hold := func() *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		if _, err := tx.ExecContext(t.Context(), `SELECT FROM memory.a`); err != nil {
			t.Fatal(err)
		}
		return tx
	}

	reader := hold()
	waited := 0
	steps, err := schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine, func(step schema.Step) {
		if step.State != schema.Waiting {
			return
		}
		if waited++; waited == 1 { // the step has given way, and these do
			_, err := db.ExecContext(t.Context(), `SELECT FROM memory.a`)
			if err != nil {
				t.Error(err)
			}
		} else if waited == 2 {
			_ = reader.Rollback()
		}
	})
	if err != nil || len(steps) != 1 || waited < 2 {
		t.Errorf("%v after waiting %d times, %v", steps, waited, err)
	}

	// One that does not end: others read whenever they like, and the step fails in the end.
	files["memory/postgres/003_c.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE memory.a DROP m;")}
	hold()
	ended := make(chan error, 1)
	go func() {
		_, err := schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine)
		ended <- err
	}()
	reads, slowest := 0, time.Duration(0)
	for {
		select {
		case err = <-ended:
		default:
			var m int
			began := time.Now()
			if err := db.QueryRowContext(t.Context(), `SELECT count(m) FROM memory.a`).Scan(&m); err != nil {
				t.Fatal(err)
			}
			reads, slowest = reads+1, max(slowest, time.Since(began))
			continue
		}
		break
	}
	t.Logf("%d reads, the slowest took %v", reads, slowest.Round(time.Millisecond))
	wantError(t, err, "step 003_c.sql of track memory", "4 attempts", "did not get the locks", "the oldest transaction", "`triskele migrate up` again")
	if reads < 3 {
		t.Errorf("%d reads while the step was tried 4 times", reads)
	}
}

// TestIndexWaitsForOldTransactions: a step that holds nobody up has all the time it needs.
func TestIndexWaitsForOldTransactions(t *testing.T) {
	t.Parallel()
	d := database{t, schema.Postgres, pgtest.Empty(t)}
	db := d.open()
	files := fstest.MapFS{
		"memory/postgres/001_a.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1 / (current_setting('lock_timeout') = '0')::integer;")},
		"memory/postgres/002_b.sql": {Data: []byte("-- +goose Up\nSELECT 1 / (current_setting('lock_timeout') = '200ms')::integer;")},
	}
	if _, err := schema.NewMigrations(files, "memory").Up(t.Context(), db, d.engine); err != nil {
		t.Error(err)
	}
}

// TestInterruptedStepIsFoundAndFinished runs a step without a transaction that fails half-way.
func TestInterruptedStepIsFoundAndFinished(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"memory/postgres/001_a.sql": {Data: []byte("-- +goose Up\nCREATE SCHEMA memory;\nCREATE TABLE memory.a (n integer);\nINSERT INTO memory.a VALUES (1), (1);")},
		"memory/postgres/002_b.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nDROP INDEX CONCURRENTLY IF EXISTS memory.a_n;\nCREATE UNIQUE INDEX CONCURRENTLY a_n ON memory.a (n);")},
		"memory/sqlite/001_a.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE a (n integer);\nINSERT INTO a VALUES (1), (1);")},
		"memory/sqlite/002_b.sql":   {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nVACUUM;\nDROP INDEX IF EXISTS a_other;\nCREATE INDEX a_other ON a (n);\nCREATE UNIQUE INDEX a_n ON a (n);")},
	}
	run(t, func(t *testing.T, d database) {
		db, table := d.open(), "a"
		if d.engine == schema.Postgres {
			table = "memory.a"
		}
		tracks := schema.NewMigrations(files, "memory")
		planned, err := tracks.Plan(t.Context(), db, d.engine)
		if err != nil || len(planned) != 2 || !planned[0].Transaction || planned[1].Transaction {
			t.Fatalf("plan %v, %v", planned, err)
		}
		steps, err := tracks.Up(t.Context(), db, d.engine)
		wantError(t, err, "step 002_b.sql of track memory")
		if len(steps) != 1 || steps[0].Name != "001_a.sql" {
			t.Errorf("applied before the failure: %v", steps)
		}
		says := []string{"lacks step 002_b.sql of track memory", "run `triskele migrate up`"}
		if d.engine == schema.Postgres {
			says = append(says, "left index memory.a_n invalid")
			// A program that does not know the step has to find it as well.
			old := fstest.MapFS{"memory/postgres/001_a.sql": files["memory/postgres/001_a.sql"]}
			wantError(t, schema.NewMigrations(old, "memory").Check(t.Context(), db, d.engine), "left index memory.a_n invalid", "REINDEX")
		}
		wantError(t, tracks.Check(t.Context(), db, d.engine), says...)

		exec(t, db, "DELETE FROM "+table)
		if _, err := tracks.Up(t.Context(), db, d.engine); err != nil {
			t.Fatal(err)
		}
		if err := tracks.Check(t.Context(), db, d.engine); err != nil {
			t.Error(err)
		}
		exec(t, db, "INSERT INTO "+table+" VALUES (2)")
		if _, err := db.ExecContext(t.Context(), "INSERT INTO "+table+" VALUES (2)"); err == nil {
			t.Error("the unique index of the step is not there")
		}
	})
}

// TestUnfinishedIndexIsNoFaultWhileMigrating: old programs may be restarted while a step builds an index.
func TestUnfinishedIndexIsNoFaultWhileMigrating(t *testing.T) {
	t.Parallel()
	d := database{t, schema.Postgres, pgtest.Empty(t)}
	db := d.open()
	first := "-- +goose Up\nCREATE SCHEMA memory;\nCREATE TABLE memory.a (n integer);"
	files := fstest.MapFS{
		"memory/postgres/001_a.sql": {Data: []byte(first)},
		"memory/postgres/002_b.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY a_n ON memory.a (n);")},
	}
	old := schema.NewMigrations(fstest.MapFS{"memory/postgres/001_a.sql": files["memory/postgres/001_a.sql"]}, "memory")
	if _, err := old.Up(t.Context(), db, d.engine); err != nil {
		t.Fatal(err)
	}
	// The build waits for a transaction that has written to the table.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO memory.a VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() {
		_, err := schema.NewMigrations(files, "memory").Up(context.WithoutCancel(t.Context()), d.open(), d.engine)
		migrated <- err
	}()
	for unfinished := 0; unfinished == 0; {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_index WHERE NOT indisvalid`).Scan(&unfinished); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Check(t.Context(), db, d.engine); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}
