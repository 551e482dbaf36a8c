package dense

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres"
)

// indexed is the SQL expression of a model's index.
func indexed(m embed.Model) string {
	if m.QueryDimensions > 0 {
		return fmt.Sprintf(`subvector(embedding::halfvec(%d), 1, %[2]d)::halfvec(%[2]d)`, m.Dimensions, m.QueryDimensions)
	}
	return fmt.Sprintf(`embedding::halfvec(%d)`, m.Dimensions)
}

// hnsw is the index definition. Searches must repeat its expression and condition.
//
// Vectors have length 1, so the inner product orders them as the cosine does. It may leave out components in which queries are
// zero. Among neighbours that differ only there, a search would get lost.
func hnsw(id int64, m embed.Model) string {
	return fmt.Sprintf(`USING hnsw ((%s) halfvec_ip_ops) WITH (m = 24, ef_construction = 128) WHERE model_id = %d`, indexed(m), id)
}

// buildingLock is the advisory lock of the re-embedding process.
const buildingLock = 0x7472_6973_6b65_6c65

// alone holds the lock in a transaction, because PgBouncer may not keep a session. The server must not end the transaction because it
// is idle. The simple protocol leaves no portal open: its snapshot would block CREATE INDEX CONCURRENTLY. On SQLite, concurrent runs
// repeat work without harm.
func (m *Models) alone(ctx context.Context, fn func() error) error {
	if m.store.File != nil {
		return fn()
	}
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0"}
	return pgx.BeginTxFunc(ctx, m.store.Pool, begin, func(tx pgx.Tx) error {
		var locked bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeSimpleProtocol, buildingLock).Scan(&locked); err != nil {
			return err
		}
		if !locked {
			return errNotAlone
		}
		return fn()
	})
}

// prepare builds each partition's index concurrently and attaches it to the table's, if a namespace was ever too large for memory.
func (m *Models) prepare(ctx context.Context, id int64, model embed.Model) error {
	if m.store.File != nil {
		return nil
	}
	var wanted bool
	if err := m.store.Pool.QueryRow(ctx, `SELECT indexed FROM dense.models WHERE id = $1`, id).Scan(&wanted); err != nil || !wanted {
		return err
	}
	parts, err := m.parts(ctx, id)
	if err != nil {
		return err
	}
	partitioned := len(parts) > 1
	if partitioned {
		if _, err := m.store.Pool.Exec(ctx, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS vectors_near_%d ON ONLY dense.vectors %s`, id, hnsw(id, model))); err != nil {
			return err
		}
	}
	for _, part := range parts {
		if part.attached {
			continue
		}
		if part.broken { // left by an interrupted build
			if _, err := m.store.Pool.Exec(ctx, `DROP INDEX CONCURRENTLY dense.`+part.index); err != nil {
				return err
			}
		}
		if part.broken || !part.exists {
			if _, err := m.store.Pool.Exec(ctx, fmt.Sprintf(`CREATE INDEX CONCURRENTLY %s ON dense.%s %s`, part.index, part.table, hnsw(id, model))); err != nil {
				return err
			}
		}
		if !partitioned {
			continue
		}
		if _, err := m.store.Pool.Exec(ctx, fmt.Sprintf(`ALTER INDEX dense.vectors_near_%d ATTACH PARTITION dense.%s`, id, part.index)); err != nil {
			return err
		}
	}
	return nil
}

// partition is one and its index.
type partition struct {
	table, index             string
	exists, broken, attached bool
}

// parts returns the partitions; the table itself if it has none, being distributed. An index attached under another name counts.
func (m *Models) parts(ctx context.Context, model int64) ([]partition, error) {
	rows, _ := m.store.Pool.Query(ctx, `
		SELECT t.relname, t.relname || $1, i.indexrelid IS NOT NULL, coalesce(NOT i.indisvalid, false),
			EXISTS (SELECT FROM pg_inherits ti JOIN pg_index x ON x.indexrelid = ti.inhrelid
				WHERE ti.inhparent = to_regclass('dense.vectors' || $1) AND x.indrelid = t.oid)
		FROM pg_inherits h JOIN pg_class t ON t.oid = h.inhrelid
		LEFT JOIN pg_index i ON i.indexrelid = to_regclass('dense.' || t.relname || $1)
		WHERE h.inhparent = 'dense.vectors'::regclass
		UNION ALL
		SELECT t.relname, t.relname || $1, i.indexrelid IS NOT NULL, coalesce(NOT i.indisvalid, false), coalesce(i.indisvalid, false)
		FROM pg_class t LEFT JOIN pg_index i ON i.indexrelid = to_regclass('dense.' || t.relname || $1)
		WHERE t.oid = 'dense.vectors'::regclass AND t.relkind = 'r' ORDER BY 1`, fmt.Sprintf("_near_%d", model)) // the rows have its error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (part partition, err error) {
		err = row.Scan(&part.table, &part.index, &part.exists, &part.broken, &part.attached)
		return part, err
	})
}

// maxDrops bounds the attempts to drop an index.
const maxDrops = 50

// unprepare drops the index. Its lock timeout is short, so that searches do not queue behind it.
func (m *Models) unprepare(ctx context.Context, model int64) error {
	if m.store.File != nil {
		return nil
	}
	parts, err := m.parts(ctx, model)
	if err != nil {
		return err
	}
	for range maxDrops {
		err = pgx.BeginFunc(ctx, m.store.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '200ms'`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(`DROP INDEX IF EXISTS dense.vectors_near_%d`, model))
			return err
		})
		if !postgres.IsLockTimeout(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	for _, part := range parts {
		if !part.exists || part.attached {
			continue
		}
		if _, err := m.store.Pool.Exec(ctx, `DROP INDEX CONCURRENTLY IF EXISTS dense.`+part.index); err != nil {
			return err
		}
	}
	return nil
}
