package importer

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// column is a column of a table with its declared type.
type column struct{ name, kind string }

// dialect is what differs between the databases of claude-memory-mcp.
type dialect interface {
	// columns returns how a statement names a table, and its columns; none if there is no such table.
	columns(ctx context.Context, db *sql.DB, table string) (quoted string, columns []column, err error)
	// row returns an expression for a row called m as a JSON object: the fields, which are expressions by name, and the
	// links to other rows if they are asked for.
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
	rows, err := db.QueryContext(ctx, statement, table)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []column
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.kind); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// listOf understands a list, and a text that is one: as JSON, as PostgreSQL writes it, or with commas or else the given
// separator between its parts.
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

// number understands numbers and texts that are numbers.
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
