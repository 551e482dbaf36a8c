package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Changes are the memories that a transaction changes, by namespace, with what it changes of each: package replica has the
// kinds. Those who keep copies in memory follow them.
type Changes map[string]*changed

type changed struct {
	ids   []uuid.UUID
	parts []string
}

// WriteTx is a transaction of Write with its changes.
type WriteTx struct {
	pgx.Tx
	Changes
}

// Add adds memories.
func (c Changes) Add(namespace, part string, ids ...uuid.UUID) {
	in := c[namespace]
	if in == nil && len(ids) > 0 {
		in = &changed{}
		c[namespace] = in
	}
	for _, id := range ids {
		in.ids, in.parts = append(in.ids, id), append(in.parts, part)
	}
}

// note writes the changes. Until the transaction ends, others who change these namespaces wait at this place.
func (c Changes) note(ctx context.Context, tx pgx.Tx) error {
	if len(c) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, namespace := range slices.Sorted(maps.Keys(c)) { // in this order nobody waits in a circle
		SetNamespace(batch, namespace)
		batch.Queue(`SELECT memory.note($1, $2, $3)`, namespace, c[namespace].ids, c[namespace].parts)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// plannedOnce makes a transaction keep the plans of its statements. Foreign keys to a partitioned table are the reason: PostgreSQL
// expects a plan for its eight partitions to cost more than to plan each check anew, which takes five times as long as the check.
// A plan that is kept must not scan a table that was small then. Citus cannot keep plans of statements with parameters.
const plannedOnce = `; SET LOCAL enable_seqscan = off; SELECT set_config('plan_cache_mode', 'force_generic_plan', true) WHERE to_regclass('pg_catalog.pg_dist_node') IS NULL`

// Write runs fn in a transaction that begins with settings, a list of SET LOCAL statements that may be empty. At its end it notes
// the changes that fn has added.
func Write(ctx context.Context, pool interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}, settings string, fn func(pgx.Tx, Changes) error) error {
	begin := pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL triskele.notes = 'own'" + plannedOnce + settings} // in one round trip
	return pgx.BeginTxFunc(ctx, pool, begin, func(tx pgx.Tx) error {
		changes := Changes{}
		if err := fn(tx, changes); err != nil {
			return err
		}
		return changes.note(ctx, tx)
	})
}
