package sqlite_test

import "testing"

// Only schemas are translated, and no names that end as one does.
func TestOtherNamesStay(t *testing.T) {
	t.Parallel()
	var n int
	if err := open(t).Read.QueryRowContext(t.Context(), `SELECT old_memory.n + xgraph.n FROM (SELECT 1 AS n) old_memory, (SELECT 2 AS n) xgraph`).Scan(&n); err != nil || n != 3 {
		t.Errorf("got %d, %v, want 3", n, err)
	}
}

// A statement in PostgreSQL's dialect runs: lists of ids and texts, rows, schemas, locks, collations, the time and placeholders.
func TestTranslated(t *testing.T) {
	t.Parallel()
	db := open(t)
	change(t, db, `CREATE TABLE memories (id BLOB, name TEXT, expires_at INTEGER)`, `INSERT INTO memories VALUES (unhex('0123456789abcdef0123456789abcdef'), 'a', 2), (x'02', 'b', 2)`)
	var name string
	if err := db.Read.QueryRowContext(t.Context(), `
		SELECT name FROM memory.memories WHERE id = ANY($2::uuid[]) AND name = ANY($1::text[]) AND expires_at > $3
		ORDER BY name COLLATE "C" LIMIT 1 FOR UPDATE SKIP LOCKED`, `["b", "a"]`, `["01234567-89ab-cdef-0123-456789abcdef"]`, 1).Scan(&name); err != nil || name != "a" {
		t.Errorf("a translated statement returns %q, %v, want a", name, err)
	}
	var micros int
	if err := db.Read.QueryRowContext(t.Context(), `SELECT (extract(epoch FROM m.expires_at) * 1000000)::bigint, to_json(m.name)::text FROM memory.memories m LIMIT 1`).Scan(&micros, &name); err != nil || micros != 2 || name != "a" {
		t.Errorf("a time and a text as they are stored give %d and %q, %v, want 2 and a", micros, name, err)
	}
	var times int
	if err := db.Read.QueryRowContext(t.Context(), `
		SELECT r.times FROM memory.memories m JOIN unnest($2::uuid[], $3::bigint[]) AS r (id, times) ON m.id = r.id WHERE m.name = $1`,
		"a", `[["01234567-89ab-cdef-0123-456789abcdef", 3], [null, 4]]`).Scan(&times); err != nil || times != 3 {
		t.Errorf("rows that are unnested give %d, %v, want 3", times, err)
	}
}
