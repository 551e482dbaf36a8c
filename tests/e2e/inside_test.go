package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// row is one row of a table.
type row struct {
	namespace, memory string   // if the table has such columns
	revision          int64    // of the memory that the row was derived from; 0 if the table does not keep it
	text              string   // with every column
	ids               []string // all in it, of whatever
}

// anID is how an id looks in the text of a row: on SQLite it is sixteen bytes.
var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|X'[0-9A-F]{32}'`)

// idsIn returns the ids in the text of a row.
func idsIn(text string) (ids []string) {
	for _, found := range anID.FindAllString(text, -1) {
		if id, err := uuid.Parse(strings.Trim(found, "X'")); err == nil {
			ids = append(ids, id.String())
		}
	}
	return ids
}

// five is the deployment of five processes over PostgreSQL.
type five struct{ *system }

func startFive(t *testing.T, more setup) *five { return &five{startWith(t, more)} }

func (f *five) clients() (triskelev1.RecallServiceClient, triskelev1.MemoryServiceClient) {
	return f.recall, f.memory
}

func (f *five) crash(rng *rand.Rand) {
	names := slices.Sorted(maps.Keys(f.processes))
	name := names[rng.IntN(len(names))]
	f.crashing.Lock()
	defer f.crashing.Unlock()
	f.signal(name, syscall.SIGKILL)
	f.run(name)
	f.awaitServing(name)
}

// textRows reads rows of a namespace, a memory's id, a revision and a whole row as text.
func textRows(t *testing.T, rows interface {
	Next() bool
	Scan(...any) error
	Err() error
}) []row {
	t.Helper()
	var out []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.namespace, &r.memory, &r.revision, &r.text); err != nil {
			t.Fatal(err)
		}
		r.ids = idsIn(r.text)
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *five) tables(t *testing.T) map[string][]row {
	t.Helper()
	conn := f.sql()
	defer func() { _ = conn.Close(context.Background()) }()
	names, err := conn.Query(t.Context(), `
		SELECT t.table_schema, t.table_name, 0::bigint, coalesce((SELECT json_agg(c.column_name)::text FROM information_schema.columns c
			WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name), '[]')
		FROM information_schema.tables t
		WHERE t.table_type = 'BASE TABLE' AND t.table_schema IN ('memory', 'lexical', 'dense', 'graph')
			AND NOT EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhrelid = format('%I.%I', t.table_schema, t.table_name)::regclass)`)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]row{}
	for _, r := range textRows(t, names) {
		var columns []string
		if err := json.Unmarshal([]byte(r.text), &columns); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf(`SELECT %s::text, %s::text, %s::bigint, t::text FROM %s.%s t`,
			columnOr(columns, "namespace", "''"), columnOr(columns, "memory_id", "''"), columnOr(columns, "revision", "0"), r.namespace, r.memory))
		if err != nil {
			t.Fatal(err)
		}
		out[r.namespace+"."+r.memory] = textRows(t, rows)
	}
	if len(out) < 8 {
		t.Fatalf("only %d tables: the check is blind", len(out))
	}
	return out
}

// columnOr returns an expression for a column, another one if the table lacks it.
func columnOr(columns []string, name, otherwise string) string {
	if slices.Contains(columns, name) {
		return "t." + name
	}
	return otherwise
}

func (f *five) indexed(t *testing.T, words []string) []string {
	return wordsLeft(t, f.fixture(), words)
}

// wordsLeft returns the words that documents have, in whichever form.
func wordsLeft(t *testing.T, f *storetest.Fixture, words []string) (left []string) {
	t.Helper()
	for _, word := range words {
		held := f.HoldsWord(t, word)
		if f.Engine == schema.Postgres && !held {
			if err := f.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM lexical.documents WHERE tsv @@ plainto_tsquery('english', $1))`, word).Scan(&held); err != nil {
				t.Fatal(err)
			}
		}
		if held {
			left = append(left, word)
		}
	}
	return left
}

func (f *five) mentions() string { return "graph.memory_concepts" }
func (o *one) mentions() string  { return "graph.memories" }

// refuse has PostgreSQL refuse new rows of a table. It quotes them in the details of its error.
func (f *five) refuse(table string) {
	f.t.Helper()
	if _, err := f.sql().Exec(f.t.Context(), "ALTER TABLE "+table+" ADD CONSTRAINT refused CHECK (false) NOT VALID"); err != nil {
		f.t.Fatal(err)
	}
}

// refuse has SQLite refuse new rows of a table.
func (o *one) refuse(table string) {
	o.t.Helper()
	schema, name, _ := strings.Cut(table, ".")
	if schema != "memory" {
		name = schema + "_" + name
	}
	if _, err := o.fixture().DB.Write.ExecContext(o.t.Context(), fmt.Sprintf("CREATE TRIGGER refused_%[1]s BEFORE INSERT ON %[1]s BEGIN SELECT RAISE(ABORT, 'refused'); END", name)); err != nil {
		o.t.Fatal(err)
	}
}

// fixture opens the database behind the services' backs, as its owner.
func (f *five) fixture() *storetest.Fixture {
	f.t.Helper()
	pool, err := pgxpool.New(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(pool.Close)
	return &storetest.Fixture{Engine: schema.Postgres, Pool: pool}
}

// fixture opens the file beside the process that uses it.
func (o *one) fixture() *storetest.Fixture {
	o.t.Helper()
	db, err := sqlite.Open(o.file, o.tel)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = db.Close() })
	return &storetest.Fixture{Engine: schema.SQLite, DB: db}
}
