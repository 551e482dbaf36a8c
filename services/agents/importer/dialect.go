package importer

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// column is a column of a table with its declared type.
type column struct{ name, kind string }

// dialect covers the differences between PostgreSQL and SQLite.
type dialect interface {
	// columns returns the quoted name of a table, and its columns. There are none if the table does not exist.
	columns(ctx context.Context, db *sql.DB, table string) (quoted string, columns []column, err error)
	// row returns an SQL expression that makes a JSON object of the row m. Its fields are SQL expressions by name. With
	// links, it also has the links to other rows.
	row(fields map[string]string, links bool) string
}

type postgresDialect struct{}

func (postgresDialect) columns(ctx context.Context, db *sql.DB, table string) (string, []column, error) {
	var quoted sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT to_regclass($1)::text", table).Scan(&quoted); err != nil || !quoted.Valid {
		return "", nil, err
	}
	columns, err := scanColumns(ctx, db, `
		SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	return quoted.String, columns, err
}

func (postgresDialect) row(fields map[string]string, links bool) string {
	return jsonObject("json_build_object", fields, links,
		"coalesce((SELECT json_agg(json_build_object('id', d.id, 'created_at', %s, 'relation', l.link_type) ORDER BY l.id) FROM memory_links l JOIN memories d ON d.id = l.dst_id WHERE l.src_id = m.id), '[]')") + "::text"
}

type sqliteDialect struct{}

// openSQLite opens the database of another program, to read only.
func openSQLite(location string) (*sql.DB, error) {
	path, err := filepath.Abs(location)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)"}
	return sql.Open("sqlite", dsn.String())
}

func (sqliteDialect) columns(ctx context.Context, db *sql.DB, table string) (string, []column, error) {
	columns, err := scanColumns(ctx, db, "SELECT name, type FROM pragma_table_info($1)", table)
	return `"` + strings.ReplaceAll(table, `"`, `""`) + `"`, columns, err
}

func (sqliteDialect) row(fields map[string]string, links bool) string {
	texts := map[string]string{}
	for name, expression := range fields { // JSON has no blobs
		texts[name] = fmt.Sprintf("CASE typeof(%[1]s) WHEN 'blob' THEN CAST(%[1]s AS TEXT) ELSE %[1]s END", expression)
	}
	return jsonObject("json_object", texts, links,
		"json((SELECT json_group_array(json_object('id', d.id, 'created_at', %s, 'relation', l.link_type)) FROM memory_links l JOIN memories d ON d.id = l.dst_id WHERE l.src_id = m.id))")
}

func jsonObject(function string, fields map[string]string, links bool, linked string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, "'"+name+"', "+fields[name])
	}
	if links {
		created := "NULL"
		if _, ok := fields["created_at"]; ok {
			created = "d.created_at"
		}
		parts = append(parts, "'links', "+fmt.Sprintf(linked, created))
	}
	return function + "(" + strings.Join(parts, ", ") + ")"
}

func scanColumns(ctx context.Context, db *sql.DB, statement, table string) ([]column, error) {
	return scanRows(ctx, db, func(c *column) []any { return []any{&c.name, &c.kind} }, statement, table)
}

// scanRows returns the rows of a query. fields returns the pointers that a row is scanned into.
func scanRows[T any](ctx context.Context, db *sql.DB, fields func(*T) []any, statement string, args ...any) (out []T, err error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row T
		if err := rows.Scan(fields(&row)...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// listOf parses a list, or a text with a list: as JSON, in PostgreSQL's braces, or separated by commas. A text without commas
// is split at the separator.
func listOf(value any, separator string) []string {
	switch v := value.(type) {
	case []any:
		var out []string
		for _, x := range v {
			if x != nil {
				out = append(out, strings.TrimSpace(fmt.Sprint(x)))
			}
		}
		return out
	case string:
		text := strings.TrimSpace(v)
		var list []any
		switch {
		case strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &list) == nil:
			return listOf(list, separator)
		case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"):
			parts := splitTrimmed(text[1:len(text)-1], ",")
			for i := range parts {
				parts[i] = strings.Trim(parts[i], `"`)
			}
			return parts
		case strings.Contains(text, ","):
			return splitTrimmed(text, ",")
		}
		return splitTrimmed(text, separator)
	}
	return nil
}

// number parses a number, or a text with a number.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		f, err := json.Number(strings.TrimSpace(v)).Float64()
		return f, err == nil
	}
	return 0, false
}
