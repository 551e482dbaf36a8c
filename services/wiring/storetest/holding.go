package storetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/schema"
)

// Holding returns the tables of all services in which a row contains one of the texts: a word, a name or an id. A
// full-text index keeps no texts: Holding searches it instead.
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
	return found
}

func (f *Fixture) holdingPostgres(ctx context.Context, texts []string) ([]string, error) {
	rows, err := f.Pool.Query(ctx, `SELECT oid::regclass::text FROM pg_class
		WHERE relkind = 'r' AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	searches := make([]string, len(tables))
	for i, table := range tables {
		searches[i] = fmt.Sprintf(`SELECT '%[1]s' WHERE EXISTS (SELECT FROM %[1]s x, unnest($1::text[]) text WHERE strpos(x::text, text) > 0)`, table)
	}
	if rows, err = f.Pool.Query(ctx, strings.Join(searches, " UNION ALL "), pgx.QueryExecModeExec, texts); err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (f *Fixture) holdingSQLite(ctx context.Context, texts []string) ([]string, error) {
	var needles, phrases []string
	for _, text := range texts {
		needles, phrases = append(needles, fmt.Sprintf("CAST('%s' AS BLOB)", strings.ReplaceAll(text, "'", "''"))), append(phrases, `"`+text+`"`)
		if id, err := uuid.Parse(text); err == nil {
			needles = append(needles, "x'"+hex.EncodeToString(id[:])+"'")
		}
	}
	type column struct{ table, name, kind string }
	var columns []column
	rows, err := f.DB.Read.QueryContext(ctx, `SELECT l.name, c.name, l.type FROM pragma_table_list l, pragma_table_info(l.name) c
		WHERE l.schema = 'main' AND l.type <> 'shadow' AND l.name <> 'sqlite_schema'
			AND NOT EXISTS (SELECT 1 FROM sqlite_schema s WHERE s.name = l.name AND s.sql LIKE '%USING fts5vocab%') -- shows another table
		ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.table, &c.name, &c.kind); err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var holding []string
	for _, c := range columns {
		conditions := make([]string, len(needles))
		for i, needle := range needles {
			conditions[i] = fmt.Sprintf(`instr(CAST("%s" AS BLOB), %s) > 0`, c.name, needle)
		}
		where, args := strings.Join(conditions, " OR "), []any(nil)
		if c.kind == "virtual" {
			where, args = fmt.Sprintf(`"%s" MATCH ?`, c.table), []any{strings.Join(phrases, " OR ")}
		}
		var held bool
		if err := f.DB.Read.QueryRowContext(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM "%s" WHERE %s)`, c.table, where), args...).Scan(&held); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", c.table, c.name, err)
		}
		if held && (len(holding) == 0 || holding[len(holding)-1] != c.table) {
			holding = append(holding, c.table)
		}
	}
	return holding, nil
}
