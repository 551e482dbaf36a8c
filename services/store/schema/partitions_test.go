package schema_test

import (
	"testing"

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/schema"
)

// TestTablesArePartitionedByNamespace looks at every table with rows of a namespace, but for those with one row for each.
// The queue and the log of changes are the exceptions: they are read for many namespaces at once, from one index and not eight,
// and they are short.
func TestTablesArePartitionedByNamespace(t *testing.T) {
	t.Parallel()
	db := database{t, schema.Postgres, pgtest.New(t)}.open()
	rows, err := db.QueryContext(t.Context(), `
		SELECT c.oid::regclass::text, coalesce(pg_get_partkeydef(c.oid), ''), coalesce(pg_get_constraintdef(k.oid), ''), (SELECT count(*) FROM pg_inherits WHERE inhparent = c.oid)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
		LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace::regnamespace::text = ANY ($1)`, schema.Tracks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	tables := 0
	for ; rows.Next(); tables++ {
		var name, partitioned, key string
		var partitions int
		if err := rows.Scan(&name, &partitioned, &key, &partitions); err != nil {
			t.Fatal(err)
		}
		if key == "PRIMARY KEY (namespace)" || name == "memory.log" {
			continue
		}
		const first = "PRIMARY KEY (namespace"
		if len(key) < len(first) || key[:len(first)] != first {
			t.Errorf("%s has the key %q", name, key)
		}
		if name != "memory.index_queue" && (partitioned != "HASH (namespace)" || partitions != 8) {
			t.Errorf("%s is partitioned by %q into %d", name, partitioned, partitions)
		}
	}
	if err := rows.Err(); err != nil || tables < 8 {
		t.Errorf("%d tables, %v", tables, err)
	}
}
