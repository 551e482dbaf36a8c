package replica

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqldb"
)

// selectMemories selects what Rows have of memories. Times are microseconds; as 0 means none, a supersession at 1970 is 1, and so is an expiry
// until then. A memory was superseded when its successor was created, and not after its own last change: an earlier successor may have been
// forgotten since.
const selectMemories = `
	SELECT m.id, m.importance, (extract(epoch FROM m.created_at) * 1000000)::bigint,
		coalesce((extract(epoch FROM m.occurred_at) * 1000000)::bigint, (extract(epoch FROM m.created_at) * 1000000)::bigint),
		CASE WHEN m.superseded_by IS NULL THEN 0 ELSE coalesce(nullif(least((extract(epoch FROM m.updated_at) * 1000000)::bigint, coalesce(
			(SELECT (extract(epoch FROM s.created_at) * 1000000)::bigint FROM memory.memories s WHERE s.namespace = $1 AND s.id = m.superseded_by),
			(extract(epoch FROM m.updated_at) * 1000000)::bigint)), 0), 1) END,
		CASE WHEN m.expires_at IS NULL THEN 0 ELSE greatest((extract(epoch FROM m.expires_at) * 1000000)::bigint, 1) END,
		to_json(m.tags)::text, m.category, m.sequence, m.thread, coalesce(m.position, 9007199254740992)
	FROM memory.memories m WHERE m.namespace = $1`

// readMemories reads memories, all if ids is nil, and calls fn for each with its newest write. It leaves out a memory whose tags are
// damaged: no filter may pass it.
func readMemories(ctx context.Context, tx Tx, namespace string, ids []uuid.UUID, fn func(m Memory, sequence int64)) error {
	var m Memory
	var tags Raw
	var sequence int64
	var list []string // scratch
	statement, args := sqldb.Among(ids, selectMemories, " AND m.id = ANY($2::uuid[])", namespace)
	if ids == nil {
		statement += tx.Dialect("", " ORDER BY m.id") // the order of the other tables, too, so that rows are used one after another
	}
	return tx.Each(ctx, statement, args,
		[]any{&m.ID, &m.Importance, &m.Created, &m.From, &m.To, &m.Expires, &tags, &m.Category, &sequence, &m.Thread, &m.Position}, func() error {
			m.Tags = nil
			if len(tags) > 2 {
				list = list[:0]
				if err := json.Unmarshal(tags, &list); err != nil {
					return nil //nolint:nilerr // see above
				}
				m.Tags = slices.Clone(list)
			}
			fn(m, sequence)
			return nil
		})
}

// readMetadata reads the scalar values of a metadata key, of all memories if ids is nil.
func readMetadata(ctx context.Context, tx Tx, namespace, key string, ids []uuid.UUID, fn func(id uuid.UUID, label string)) error {
	var id uuid.UUID
	var text string
	statement, args := sqldb.Among(ids, tx.Dialect(`
		SELECT m.id, (m.metadata -> $2)::text FROM memory.memories m WHERE m.namespace = $1 AND jsonb_typeof(m.metadata -> $2) IN ('string', 'number', 'boolean')`, `
		SELECT m.id, CASE e.type WHEN 'text' THEN json_quote(e.value) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(e.value AS TEXT) END
		FROM memories m, json_each(m.metadata) e WHERE m.namespace = $1 AND e.key = $2 AND e.type IN ('text', 'true', 'false', 'integer', 'real')`,
	), " AND m.id = ANY($3::uuid[])", namespace, key)
	return tx.Each(ctx, statement, args, []any{&id, &text}, func() error {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil //nolint:nilerr // a number beyond float64 equals none that a filter can have
		}
		if label := metadataLabel(key, value); label != "" {
			fn(id, label)
		}
		return nil
	})
}
