package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// claimLocking is Claim on PostgreSQL. It looks for due tasks without locks, and then locks them within each namespace: a distributed
// engine locks rows of one node at a time. What another worker has locked meanwhile is left to it.
//
// The operator || keeps the planner from index_queue_since, which looks as good as the primary key to it, and has all tasks.
func (q *Queue) claimLocking(ctx context.Context, index string, n int, lease time.Duration) (tasks []Task, err error) {
	due := map[string][]uuid.UUID{}
	var key record.Key
	var looking sqldb.Batch
	looking.Query([]any{&key.Namespace, &key.ID}, func() { due[key.Namespace] = append(due[key.Namespace], key.ID) }, `
		SELECT namespace, memory_id FROM memory.index_queue WHERE index_name = $1 AND NOT dead AND not_before <= now()
		ORDER BY not_before, namespace, memory_id LIMIT $2`, index, n)
	if err := q.write.In(postgres.AllNamespaces).Send(ctx, &looking); err != nil || len(due) == 0 {
		return nil, err
	}
	var batch sqldb.Batch
	for _, namespace := range slices.Sorted(maps.Keys(due)) {
		batch.Read(func(scan sqldb.Scan) error {
			task, err := scanTask(scan)
			tasks = append(tasks, task)
			return err
		}, `
			WITH due AS MATERIALIZED (
				SELECT memory_id FROM memory.index_queue
				WHERE namespace = $1 AND index_name || '' = $2 AND memory_id = ANY ($3) AND NOT dead AND not_before <= now() ORDER BY memory_id FOR UPDATE SKIP LOCKED
			), claimed AS (
				UPDATE memory.index_queue q SET not_before = now() + $4::interval
				FROM due WHERE q.namespace = $1 AND q.index_name || '' = $2 AND q.memory_id = due.memory_id
				RETURNING q.memory_id, q.attempts, q.enqueued_at, q.sequence
			)
			SELECT `+record.Columns+`, c.attempts, c.enqueued_at, c.sequence
			FROM claimed c JOIN memory.memories m ON m.namespace = $1 AND m.id = c.memory_id
			ORDER BY m.id`, namespace, index, due[namespace], lease)
	}
	err = q.write.In(postgres.AllNamespaces).Send(ctx, &batch)
	return tasks, err
}

// each runs a statement of PostgreSQL's for each namespace of tasks, all in one transaction. Its arguments are the namespace, the index
// and further ones, before the tasks' ids, revisions and sequences.
func (q *Queue) each(ctx context.Context, index string, tasks []Task, statement string, more ...any) error {
	in := map[string]sqldb.Rows{}
	for _, t := range tasks {
		in[t.Record.Namespace] = append(in[t.Record.Namespace], []any{t.Record.ID, t.Record.Revision, t.Sequence})
	}
	var batch sqldb.Batch
	for _, namespace := range slices.Sorted(maps.Keys(in)) {
		batch.Exec(statement, slices.Concat([]any{namespace, index}, more, []any{in[namespace]})...)
	}
	return q.write.In(postgres.AllNamespaces).Send(ctx, &batch)
}
