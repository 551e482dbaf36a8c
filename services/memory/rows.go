package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// selectRecords selects the records of namespace $1.
const selectRecords = `SELECT ` + record.Columns + ` FROM memory.memories m WHERE m.namespace = $1`

// insert is Store.Insert. Derived indexes that are prepared get no tasks.
func (tx transaction) insert(ctx context.Context, records []record.Record, ready prepared) ([]Inserted, error) {
	sequences, err := tx.begin(ctx, records)
	if err != nil {
		return nil, err
	}
	results, err := planInsert(ctx, tx.DB(), records)
	var fresh []record.Record
	for _, r := range results {
		if r.New {
			fresh = append(fresh, r.Record)
		}
	}
	if err != nil || len(fresh) == 0 {
		return results, err
	}
	if sequences == nil {
		if sequences, err = tx.numbers(ctx, len(fresh)); err != nil {
			return nil, err
		}
	}
	numbered := map[record.Key]int64{}
	for i := range fresh {
		fresh[i].Sequence = sequences[i]
		numbered[fresh[i].Key()] = sequences[i]
	}
	for i := range results {
		r := &results[i].Record
		r.Sequence = cmp.Or(numbered[r.Key()], r.Sequence)
	}
	if err := tx.store(ctx, fresh); err != nil {
		return nil, err
	}
	if err := tx.index(ctx, fresh, ready); err != nil {
		return nil, err
	}
	if err := link(ctx, tx, fresh); err != nil {
		return nil, err
	}
	return results, ready.put(ctx, tx.Tx, fresh)
}

// planAnew records make a transaction plan its statements anew, which takes some milliseconds. A plan that was made while a table was
// empty may read all of a namespace for a few keys. It is kept until the server has analysed the table a minute later.
const planAnew = 100

// begin creates the records' namespaces. On PostgreSQL it takes a sequence number for each record in the same round trip. SQLite
// flushes nothing to the disk unless something is new.
func (tx transaction) begin(ctx context.Context, records []record.Record) (sequences []int64, err error) {
	names := namespacesOf(records)
	var batch sqldb.Batch
	if tx.SQLite == nil {
		var n int64
		batch.Query([]any{&n}, func() { sequences = append(sequences, n) }, `SELECT nextval('memory.write_sequence') FROM generate_series(1, $1)`, len(records))
	}
	for _, name := range names {
		batch.Exec(`INSERT INTO memory.namespaces (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
	}
	if tx.SQLite == nil && len(records) >= planAnew {
		batch.Exec(`DISCARD PLANS`)
	}
	return sequences, tx.In(sqldb.Scope(names)).Send(ctx, &batch)
}

// numbers takes the next n write sequences.
func (tx transaction) numbers(ctx context.Context, n int) (sequences []int64, err error) {
	next := tx.DB().Dialect(`SELECT nextval('memory.write_sequence') FROM generate_series(1, $1)`, `UPDATE write_sequence SET last = last + $1 RETURNING last - $1 + 1`)
	sequences, err = sqldb.Column[int64](ctx, tx.In(postgres.Entered), next, n)
	for err == nil && len(sequences) < n {
		sequences = append(sequences, sequences[len(sequences)-1]+1)
	}
	return sequences, err
}

// errNamespaceGone says that a namespace was deleted after the transaction had created or found it.
var errNamespaceGone = errors.New("the namespace has been deleted meanwhile")

// store inserts records with their sequences.
func (tx transaction) store(ctx context.Context, records []record.Record) error {
	if tx.SQLite == nil {
		return tx.storePostgres(ctx, records)
	}
	insert := `INSERT INTO memories (` + strings.ReplaceAll(record.Columns, "m.", "") + `) VALUES (?` + strings.Repeat(", ?", strings.Count(record.Columns, ",")) + `)`
	return sqlite.ExecEach(ctx, tx.SQLite, insert, records, func(r record.Record) []any { return sqldb.SQLiteArgs("", columns(r)) })
}

// storePostgres inserts records by a statement for each namespace. It joins the namespace's row, so a distributed engine inserts where
// that is.
func (tx transaction) storePostgres(ctx context.Context, records []record.Record) error {
	for _, namespace := range namespacesOf(records) {
		var ids []uuid.UUID
		var rows sqldb.Rows
		for _, r := range records {
			if r.Namespace == namespace {
				ids, rows = append(ids, r.ID), append(rows, row(r))
			}
		}
		tx.Note(namespace, replica.Records, ids...)
		stored, err := tx.In(postgres.Entered).Exec(ctx, `
			INSERT INTO memory.memories (namespace, id, content, title, expanded_keywords, tags, category, metadata,
				importance, sensitive, source, created_at, updated_at, occurred_at, expires_at, supersedes,
				superseded_by, revision, idempotency_key, links, sequence, thread, position)
			SELECT n.name, r.id, r.content, r.title, r.keywords::text[], r.tags::text[], r.category, r.metadata::jsonb,
				r.importance, r.sensitive, r.source, r.created, r.updated, r.occurred, r.expires, r.supersedes,
				r.superseded_by, r.revision, r.key, r.links::jsonb, r.sequence, r.thread, r.position
			FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
				$9::float8[], $10::boolean[], $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::uuid[],
				$17::uuid[], $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::text[], $23::bigint[])
				AS r (id, content, title, keywords, tags, category, metadata, importance, sensitive, source, created, updated, occurred, expires, supersedes,
					superseded_by, revision, key, links, sequence, thread, position)
			WHERE n.name = $1`, namespace, rows)
		if err != nil {
			return err
		}
		if stored != int64(len(ids)) {
			return errNamespaceGone
		}
	}
	return nil
}

// arrayText is a list in the text form of PostgreSQL's arrays, for a column of lists: its own arrays have lists of one length only.
func arrayText(list []string) string {
	if len(list) == 0 {
		return "{}"
	}
	var b strings.Builder
	for i, s := range list {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		_, _ = arrayQuoting.WriteString(&b, s)
		b.WriteByte('"')
	}
	return b.String() + "}"
}

var arrayQuoting = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// row returns a record's values for PostgreSQL, in the order of record.Columns and without the namespace. Lists and objects are texts.
func row(r record.Record) []any {
	values := columns(r)[1:]
	for i, value := range values {
		switch v := value.(type) {
		case []string:
			values[i] = arrayText(v)
		case []record.Link, map[string]any:
			text, _ := json.Marshal(v) // it was read from JSON, or is finite by its check
			values[i] = string(text)
		case uuid.UUID:
			values[i] = orNull(v)
		}
	}
	return values
}

// columns returns a record's values in the order of record.Columns. Lists and objects are not nil, which would be stored as null.
func columns(r record.Record) []any {
	return []any{
		r.Namespace, r.ID, r.Content, r.Title, append([]string{}, r.Keywords...), append([]string{}, r.Tags...), r.Category,
		maps.Collect(maps.All(r.Metadata)), r.Importance, r.Sensitive, r.Source, r.CreatedAt, r.UpdatedAt, r.OccurredAt, r.ExpiresAt, r.Supersedes,
		r.SupersededBy, r.Revision, orNull(r.IdempotencyKey), append([]record.Link{}, r.Links...), r.Sequence, r.Thread, r.Position,
	}
}

// orNull returns a pointer to v, nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// index updates the inline index and enqueues the derived ones that are not ready.
func (tx transaction) index(ctx context.Context, records []record.Record, ready prepared) error {
	if err := ready.inline(ctx, tx.Tx, records); err != nil {
		return fmt.Errorf("lexical index: %w", err)
	}
	return queue.Enqueue(ctx, tx.Tx, records, slices.Collect(maps.Keys(ready.derived)))
}

// unprepared is for records whose indexes were not prepared: the inline one does all of its work in the transaction.
func (tx transaction) unprepared(ctx context.Context) prepared {
	return prepared{inline: tx.of.words.Prepare(ctx, nil)}
}

// current returns a record and locks it until the transaction ends; ErrNotFound.
func (tx transaction) current(ctx context.Context, namespace string, id uuid.UUID) (record.Record, error) {
	return only(tx.In(namespace).Records(ctx, selectRecords+` AND m.id = $2 FOR UPDATE`, namespace, id))
}

// only returns what was found, which is one at most; ErrNotFound.
func only[T any](found []T, err error) (one T, _ error) {
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return one, err
	}
	return found[0], nil
}

// replace writes a changed record at the next revision, sets its UpdatedAt and Sequence, and updates its indexes.
func (tx transaction) replace(ctx context.Context, r *record.Record) error {
	sequences, err := tx.numbers(ctx, 1) // asked for first: a distributed engine evaluates nothing volatile in an update
	if err != nil {
		return err
	}
	r.Sequence, r.UpdatedAt = sequences[0], record.Now()
	r.Revision = r.Revision%record.MaxRevision + 1 // an import may have used the last number; continue with 1
	update := `
		UPDATE memory.memories SET content = $3, title = $4, expanded_keywords = $5, tags = $6, category = $7, metadata = $8, importance = $9,
			sensitive = $10, source = $11, created_at = $12, updated_at = $13, occurred_at = $14, expires_at = $15, supersedes = $16,
			superseded_by = $17, revision = $18, idempotency_key = $19, links = $20, sequence = $21, thread = $22, position = $23
		WHERE namespace = $1 AND id = $2` + tx.DB().Dialect(` AND sensitive = $10`, "")
	updated, err := tx.In(postgres.Entered).Exec(ctx, update, columns(*r)...)
	if err != nil {
		return err
	}
	tx.Note(r.Namespace, replica.Records, r.ID)
	if updated == 0 { // derived rows say whether their memory is sensitive: they go with the former row
		if _, err := tx.erase(ctx, r.Namespace, []uuid.UUID{r.ID}); err != nil {
			return err
		}
		if err := tx.store(ctx, []record.Record{*r}); err != nil {
			return err
		}
		tx.Note(r.Namespace, replica.Vectors, r.ID)
		tx.Note(r.Namespace, replica.Graph, r.ID)
	}
	return tx.index(ctx, []record.Record{*r}, tx.unprepared(ctx))
}

// remove deletes records, with their derived data, and returns how many there were.
func (tx transaction) remove(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	// The successor of a forgotten memory supersedes nothing any more.
	if err := tx.change(ctx, namespace, `UPDATE memory.memories SET supersedes = NULL WHERE namespace = $1 AND supersedes = ANY($2::uuid[]) RETURNING id`, namespace, ids); err != nil {
		return 0, err
	}
	return tx.erase(ctx, namespace, ids)
}

// erase deletes memories; foreign keys delete what is derived from them.
func (tx transaction) erase(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	// In this order nobody waits in a circle.
	doomed, err := tx.In(namespace).IDs(ctx, `SELECT id FROM memory.memories WHERE namespace = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR UPDATE`, namespace, ids)
	if err != nil || len(doomed) == 0 {
		return 0, err
	}
	tx.Note(namespace, replica.Records, doomed...)
	var batch sqldb.Batch
	if tx.SQLite == nil {
		batch.Exec(`SELECT graph.forget($1, $2)`, namespace, doomed)
	}
	batch.Exec(`DELETE FROM memory.memories WHERE namespace = $1 AND id = ANY($2::uuid[])`, namespace, doomed)
	return int64(len(doomed)), tx.In(namespace).Send(ctx, &batch)
}

// change runs a statement that returns the ids of the memories that it changes.
func (tx transaction) change(ctx context.Context, namespace, statement string, args ...any) error {
	ids, err := tx.In(namespace).IDs(ctx, statement, args...)
	tx.Note(namespace, replica.Records, ids...)
	return err
}

// closeChains connects the predecessors and successors of memories with each other before they are forgotten. A predecessor
// stays superseded since the same time: it is out of date even without the memory between.
func (tx transaction) closeChains(ctx context.Context, namespace string, ids []uuid.UUID) error {
	if err := tx.change(ctx, namespace, `
		UPDATE memory.memories AS m SET updated_at = least(m.updated_at, s.created)
		FROM (SELECT id AS successor, supersedes AS old, created_at AS created FROM memory.memories WHERE namespace = $1 AND id = ANY($2::uuid[])) AS s
		WHERE m.namespace = $1 AND m.id = s.old AND m.superseded_by = s.successor RETURNING id`, namespace, ids); err != nil {
		return err
	}
	links, err := tx.In(namespace).IDs(ctx, `SELECT id FROM memory.memories
		WHERE namespace = $1 AND id = ANY($2::uuid[]) AND supersedes IS NOT NULL AND superseded_by IS NOT NULL ORDER BY id`, namespace, ids)
	if err != nil {
		return err
	}
	for _, id := range links {
		var before, after uuid.UUID // earlier rounds may have changed them
		if _, err := tx.In(namespace).Get(ctx, `SELECT supersedes, superseded_by FROM memory.memories WHERE namespace = $1 AND id = $2`, []any{namespace, id}, &before, &after); err != nil {
			return err
		}
		if err := tx.change(ctx, namespace, `UPDATE memory.memories SET superseded_by = $4 WHERE namespace = $1 AND id = $2 AND superseded_by = $3 RETURNING id`, namespace, before, id, after); err != nil {
			return err
		}
		if err := tx.change(ctx, namespace, `UPDATE memory.memories SET supersedes = $4 WHERE namespace = $1 AND id = $2 AND supersedes = $3 RETURNING id`, namespace, after, id, before); err != nil {
			return err
		}
	}
	return nil
}
