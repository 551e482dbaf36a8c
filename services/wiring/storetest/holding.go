package storetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
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
	documents := "lexical.documents"
	if f.Engine == schema.SQLite {
		documents = "lexical_documents"
	}
	for _, text := range texts {
		if f.HoldsWord(t, text) && !slices.Contains(found, documents) {
			found = append(found, documents)
		}
	}
	return found
}

// HoldsWord reports whether the document of a memory has all words of a text.
func (f *Fixture) HoldsWord(t testing.TB, text string) bool {
	t.Helper()
	all, err := sqldb.Column[[]byte](context.Background(), f.Store().DB().In(postgres.AllNamespaces), `SELECT terms FROM lexical.documents`)
	held := slices.ContainsFunc(all, func(terms []byte) (held bool) {
		if err == nil {
			held, err = lexical.Holds(terms, text)
		}
		return held
	})
	if err != nil {
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
	columns, err := sqldb.Column[string](ctx, f.Store().DB().In(postgres.AllNamespaces), `SELECT l.name || '.' || c.name
		FROM pragma_table_list l, pragma_table_info(l.name) c WHERE l.schema = 'main' AND l.name <> 'sqlite_schema' ORDER BY l.name, c.name`)
	if err != nil {
		return nil, err
	}
	var holding []string
	for _, column := range columns {
		table, name, _ := strings.Cut(column, ".")
		conditions := slice.Map(needles, func(needle string) string { return fmt.Sprintf(`instr(CAST("%s" AS BLOB), %s) > 0`, name, needle) })
		var held bool
		if err := f.DB.Read.QueryRowContext(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT 1 FROM "%s" WHERE %s)`, table, strings.Join(conditions, " OR "))).Scan(&held); err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}
		if held && !slices.Contains(holding, table) {
			holding = append(holding, table)
		}
	}
	return holding, nil
}
