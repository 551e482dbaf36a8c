package schema_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// otherRoles are the released steps of the memory track with roles that no other test's databases have, which are
// dropped when the test ends.
func otherRoles(t *testing.T) (schema.Migrations, string) {
	t.Helper()
	prefix := "t_" + strings.ReplaceAll(uuid.New().String(), "-", "") + "_"
	files := fstest.MapFS{}
	names, err := fs.Glob(schema.Files, "memory/postgres/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(schema.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(text), "triskele_", prefix))}
	}
	admin := database{t, schema.Postgres, pgtest.Empty(t)}.open()
	t.Cleanup(func() {
		for _, name := range append([]string{"owner"}, schema.Tracks...) {
			if _, err := admin.ExecContext(context.Background(), "DROP ROLE IF EXISTS "+prefix+name); err != nil {
				t.Error(err)
			}
		}
	})
	return schema.NewMigrations(files, "memory"), prefix
}

// TestRolesAreSharedByDatabases migrates several databases of one server at once, the first it ever sees.
func TestRolesAreSharedByDatabases(t *testing.T) {
	t.Parallel()
	tracks, _ := otherRoles(t)
	var wg sync.WaitGroup
	for range 4 {
		db := database{t, schema.Postgres, pgtest.Empty(t)}.open()
		wg.Go(func() {
			if _, err := tracks.Up(t.Context(), db, schema.Postgres); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestRolesByAnAdministrator migrates as a user who may not create roles.
func TestRolesByAnAdministrator(t *testing.T) {
	t.Parallel()
	tracks, prefix := otherRoles(t)
	d := database{t, schema.Postgres, pgtest.Empty(t)}
	admin := d.open()
	owner := prefix + "owner"
	exec(t, admin, fmt.Sprintf(`CREATE USER %s PASSWORD 'x'`, owner))
	u, err := url.Parse(d.name)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, admin, fmt.Sprintf(`GRANT CREATE ON DATABASE %q TO %s; GRANT CREATE ON SCHEMA public TO %[2]s`, strings.TrimPrefix(u.Path, "/"), owner))
	query := u.Query()
	query.Set("user", owner)
	query.Set("password", "x")
	u.User, u.RawQuery = nil, query.Encode()
	db := database{t, schema.Postgres, u.String()}.open()

	_, err = tracks.Up(t.Context(), db, schema.Postgres)
	wantError(t, err, "302_memory.sql", "role "+prefix+"memory is missing", "administrator", "CREATE ROLE "+prefix+"graph")
	for _, service := range schema.Tracks {
		exec(t, admin, "CREATE ROLE "+prefix+service)
	}
	if _, err = tracks.Up(t.Context(), db, schema.Postgres); err != nil {
		t.Error(err)
	}
}

// TestEveryTableIsIsolated: a step that makes a table with a namespace has to call memory.isolate.
func TestEveryTableIsIsolated(t *testing.T) {
	t.Parallel()
	db := database{t, schema.Postgres, pgtest.New(t)}.open()
	rows, err := db.QueryContext(t.Context(), `
		SELECT c.oid::regclass::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
		WHERE c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND c.relnamespace::regnamespace::text = ANY ($1)
			AND c.oid::regclass::text !~ '^lexical.documents(_\d)?$'`, schema.Tracks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s has no row-level security", table)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestRolesMayDoNoMore tries what no service needs. What they need, the tests of the whole system show.
func TestRolesMayDoNoMore(t *testing.T) {
	t.Parallel()
	d := database{t, schema.Postgres, pgtest.New(t)}
	owner := d.open()
	d.remember(owner, storetest.Record("mine", "a", nil))
	d.remember(owner, storetest.Record("theirs", "b", nil))
	if _, err := owner.ExecContext(t.Context(), `INSERT INTO lexical.settings (namespace, language, k1, b, prefix) VALUES ('theirs', 'en', 1, 1, true)`); err != nil {
		t.Fatal(err)
	}
	const denied, check, unset = "permission denied", "row-level security policy", "triskele.namespace is not set"
	for service, tries := range map[string]map[string]string{
		"memory": {
			"SELECT content FROM memory.memories":     unset,
			"SELECT name FROM memory.namespaces":      unset,
			"SELECT * FROM dense.vectors":             denied,
			"SELECT * FROM graph.concepts":            denied,
			"DELETE FROM lexical.settings":            denied,
			"DROP TABLE memory.index_queue":           "must be owner",
			"ALTER TABLE memory.memories ADD x text":  "must be owner",
			"UPDATE schema_version_memory SET id = 1": denied,
			"TRUNCATE memory.memories CASCADE":        denied,
			"SET LOCAL triskele.namespace = 'mine'; UPDATE memory.memories SET namespace = 'theirs'":     check,
			"SET LOCAL triskele.namespace = 'mine'; INSERT INTO memory.namespaces (name) VALUES ('new')": check,
		},
		"lexical": {
			"SELECT importance FROM memory.memories":                             unset,
			"SELECT content FROM memory.memories":                                denied,
			"SELECT title FROM memory.memories":                                  denied,
			"SELECT * FROM memory.index_queue":                                   denied,
			"DELETE FROM lexical.documents":                                      denied,
			"SELECT * FROM lexical.settings":                                     unset,
			"UPDATE lexical.settings SET k1 = 1":                                 denied,
			"SELECT id FROM memory.memories FOR SHARE":                           denied,
			"SET LOCAL triskele.namespace = 'mine'; DELETE FROM memory.memories": denied,
		},
		"dense": {
			"SELECT content FROM memory.memories":                                              unset,
			"SELECT * FROM dense.vectors WHERE namespace = 'mine'":                             "",
			"SET LOCAL triskele.namespace = '*'; UPDATE memory.memories SET id = id":           check,
			"UPDATE memory.memories SET content = ''":                                          denied,
			"UPDATE memory.index_queue SET index_name = 'graph'":                               denied,
			"INSERT INTO memory.index_queue SELECT * FROM memory.index_queue":                  denied,
			"SELECT * FROM graph.concepts":                                                     denied,
			"INSERT INTO dense.model_rows (model_id, sensitive, local) VALUES (1, true, true)": check,
			"UPDATE dense.model_rows SET sensitive = true":                                     denied,
			"SELECT nextval('memory.write_sequence')":                                          denied,
			"CREATE INDEX ON dense.vectors (revision)":                                         "must be owner",
		},
		"graph": {
			"SELECT content FROM memory.memories":                                    unset,
			"SET LOCAL triskele.namespace = '*'; UPDATE memory.memories SET id = id": check,
			"SELECT * FROM lexical.documents":                                        denied,
			"SELECT memory_id FROM memory.log":                                       unset,
			"DELETE FROM memory.log":                                                 denied,
			"SELECT memory.log_change('mine', '{}')":                                 denied,
		},
	} {
		for i := range 8 {
			if tries[fmt.Sprintf("SELECT importance FROM memory.memories_%d", i)] = denied; service == "memory" {
				tries[fmt.Sprintf("SELECT importance FROM memory.memories_%d", i)] = "" // granted with the schema, without a policy
			}
		}
		login := pgtest.Login(t, d.name, service)
		for statement, want := range tries {
			db := database{t, schema.Postgres, login}.open()
			rows, err := count(t, db, statement)
			if (err == nil) != (want == "") || rows != 0 || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s gives %d rows, %v; want error %q", service, statement, rows, err, want)
			}
			_ = db.Close()
		}
		for statement, want := range map[string]int{
			"SET LOCAL triskele.namespace = 'mine'": 1,
			"SET LOCAL triskele.namespace = '*'":    2,
		} {
			db := database{t, schema.Postgres, login}.open()
			if rows, err := count(t, db, statement+"; SELECT importance FROM memory.memories"); err != nil || rows != want {
				t.Errorf("%s after %s sees %d memories, %v", service, statement, rows, err)
			}
			_ = db.Close()
		}
	}
}

// count runs a statement, or several, and counts the rows of the last.
func count(t *testing.T, db *sql.DB, statement string) (n int, err error) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	setting, last, several := strings.Cut(statement, "; ")
	if !several {
		last = setting
	} else if _, err := tx.ExecContext(t.Context(), setting); err != nil {
		return 0, err
	}
	rows, err := tx.QueryContext(t.Context(), last)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}
