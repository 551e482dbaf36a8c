package storetest

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/schema"
)

// Holding returns the tables of all services in which a row contains one of the texts: a word, a name or an id. The words of
// documents are decoded.
func (f *Fixture) Holding(t testing.TB, texts ...string) []string {
	t.Helper()
	search := f.holdingSQLite
	if f.Engine == schema.Postgres {
		search = f.holdingPostgres
	}
	found, err := search(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if table := f.documents(); f.HoldsWord(t, text) && !slices.Contains(found, table) {
			found = append(found, table)
		}
	}
	return found
}

// documents is the table of the words of memories.
func (f *Fixture) documents() string {
	if f.Engine == schema.Postgres {
		return "lexical.documents"
	}
	return "lexical_documents"
}

// HoldsWord reports whether the document of a memory has all words of a text.
func (f *Fixture) HoldsWord(t testing.TB, text string) (held bool) {
	t.Helper()
	var db *sql.DB
	if f.Engine == schema.Postgres {
		db = stdlib.OpenDBFromPool(f.Pool)
		defer func() { _ = db.Close() }()
	} else {
		db = f.DB.Read
	}
	rows, err := db.QueryContext(context.Background(), "SELECT terms FROM "+f.documents())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var terms []byte
	for !held && rows.Next() {
		if err = rows.Scan(&terms); err == nil {
			held, err = lexical.Holds(terms, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return held
}

func (f *Fixture) holdingPostgres(ctx context.Context, texts []string) ([]string, error) {
	rows, err := f.Pool.Query(ctx, `SELECT oid::regclass::text FROM pg_class
		WHERE relkind = 'r' AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
			AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e') ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	searches := slice.Map(tables, func(table string) string {
		return fmt.Sprintf(`(SELECT '%[1]s' FROM %[1]s x WHERE x::text LIKE ANY ($1::text[]) LIMIT 1)`, table)
	})
	patterns := slice.Map(texts, func(text string) string {
		return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
	})
	if rows, err = f.Pool.Query(ctx, strings.Join(searches, " UNION ALL "), pgx.QueryExecModeExec, patterns); err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (f *Fixture) holdingSQLite(ctx context.Context, texts []string) ([]string, error) {
	var needles []string
	for _, text := range texts {
		needles = append(needles, fmt.Sprintf("CAST('%s' AS BLOB)", strings.ReplaceAll(text, "'", "''")))
		if id, err := uuid.Parse(text); err == nil {
			needles = append(needles, "x'"+hex.EncodeToString(id[:])+"'")
		}
	}
	type column struct{ table, name string }
	var columns []column
	rows, err := f.DB.Read.QueryContext(ctx, `SELECT l.name, c.name FROM pragma_table_list l, pragma_table_info(l.name) c
		WHERE l.schema = 'main' AND l.name <> 'sqlite_schema' ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.table, &c.name); err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var holding []string
	for _, c := range columns {
		conditions := slice.Map(needles, func(needle string) string { return fmt.Sprintf(`instr(CAST("%s" AS BLOB), %s) > 0`, c.name, needle) })
		var held bool
		if err := f.DB.Read.QueryRowContext(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM "%s" WHERE %s)`, c.table, strings.Join(conditions, " OR "))).Scan(&held); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", c.table, c.name, err)
		}
		if held && (len(holding) == 0 || holding[len(holding)-1] != c.table) {
			holding = append(holding, c.table)
		}
	}
	return holding, nil
}
