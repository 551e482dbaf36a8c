package schema

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
)

// Distribution is what Distribute executes.
//
//go:embed distribute.sql
var Distribution string

// misfits has a row for each thing that cannot be distributed by namespace.
const misfits = `
	WITH tables AS (
		SELECT c.oid, c.oid::regclass::text AS name, a.attnum AS key FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
			AND a.attname = CASE c.oid WHEN 'memory.namespaces'::regclass THEN 'name' ELSE 'namespace' END
		WHERE c.relnamespace::regnamespace::text = ANY ($1) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.oid::regclass::text NOT IN ('memory.indexes', 'memory.log_floor', 'dense.models', 'dense.model_rows')
	)
	SELECT format('table %s has no column namespace', name) FROM tables WHERE key IS NULL
	UNION ALL
	SELECT format('index %s is unique without the namespace', i.indexrelid::regclass) FROM pg_index i JOIN tables t ON t.oid = i.indrelid
	WHERE i.indisunique AND NOT t.key = ANY (i.indkey::int2[])
	UNION ALL
	SELECT format('policy %s of table %s has a sub-select', p.polname, t.name) FROM pg_policy p JOIN tables t ON t.oid = p.polrelid
	WHERE concat(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) ~ '\mSELECT\M'
	UNION ALL
	SELECT format('foreign key %s of table %s refers to it from outside', k.conname, k.conrelid::regclass) FROM pg_constraint k JOIN tables t ON t.oid = k.confrelid
	WHERE k.contype = 'f' AND (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = k.conrelid) <> ALL ($1)
	UNION ALL
	SELECT format('view %s reads table %s', v.oid::regclass, t.name) FROM tables t JOIN pg_depend d ON d.refobjid = t.oid AND d.classid = 'pg_rewrite'::regclass
		JOIN pg_rewrite w ON w.oid = d.objid JOIN pg_class v ON v.oid = w.ev_class
	WHERE v.oid <> t.oid AND v.oid::regclass::text <> 'lexical.terms'
	GROUP BY v.oid, t.name`

// Distribute distributes the tables of a PostgreSQL database over the nodes of a Citus cluster, by namespace. The schema must be
// complete, and no other program may use the database meanwhile. It changes nothing if anything does not fit, and names that. What
// is distributed already stays as it is.
func Distribute(ctx context.Context, db *sql.DB) error {
	var workers int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_dist_node WHERE noderole = 'primary' AND groupid <> 0 AND isactive`).Scan(&workers)
	var coded interface{ SQLState() string }
	switch {
	case errors.As(err, &coded) && coded.SQLState() == "42P01":
		return errors.New("the database has no extension citus: run CREATE EXTENSION citus on every node, and citus_add_node on the coordinator")
	case err != nil:
		return err
	case workers == 0:
		return errors.New("this server knows no worker nodes: run citus_add_node for each on the coordinator, and this command there")
	}
	unfit, err := unfit(ctx, db)
	if err != nil {
		return err
	}
	if unfit != "" {
		return fmt.Errorf("the tables cannot be distributed: %s", unfit)
	}
	_, err = db.ExecContext(ctx, Distribution)
	return err
}

func unfit(ctx context.Context, db *sql.DB) (list string, err error) {
	err = db.QueryRowContext(ctx, `SELECT coalesce(string_agg(what, '; ' ORDER BY what), '') FROM (`+misfits+`) AS m (what)`, Tracks).Scan(&list)
	return list, err
}
