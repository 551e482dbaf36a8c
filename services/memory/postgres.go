package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// txAttempts limits the attempts of a transaction that conflicts with concurrent ones.
const txAttempts = 5

// PostgresIndex is an index kept in the record's own transaction. Foreign keys delete rows of forgotten records.
type PostgresIndex interface {
	// Prepare does what needs no transaction for records that are about to be stored. put adds or replaces entries of records, these
	// or others.
	Prepare(ctx context.Context, records []record.Record) (put func(ctx context.Context, tx pgx.Tx, records []record.Record) error)
	// Matches returns the places of a query's words in each record of a namespace.
	Matches(ctx context.Context, db postgres.Batcher, namespace, query string, records []record.Record) ([]record.Matches, error)
}

// Postgres keeps records in PostgreSQL.
type Postgres struct {
	// Standby, if not nil, serves reads of contents while the primary cannot be reached. Set it before the first
	// call.
	Standby *postgres.Standby

	// Last records the outcome of writes; replace it before the first call to share one.
	Last *diskerr.Last

	// Committed, if not nil, is called after each write. Set it before the first call.
	Committed func()

	writes
	pool  *pgxpool.Pool
	words PostgresIndex
	// lockTime is the lock_timeout of a write.
	lockTime time.Duration
}

var _ Store = (*Postgres)(nil)

// NewPostgres returns a store that keeps the inline index in each record's transaction.
func NewPostgres(pool *pgxpool.Pool, words PostgresIndex) *Postgres {
	s := &Postgres{pool: pool, words: words, Last: &diskerr.Last{}, lockTime: 10 * time.Second}
	s.inline = func(ctx context.Context, records []record.Record) inlinePutter {
		put := words.Prepare(ctx, records)
		return func(ctx context.Context, tx transaction, records []record.Record) error {
			return put(ctx, tx.(postgresTx).Tx, records)
		}
	}
	s.derived = derivers{}
	s.run = func(ctx context.Context, fn func(transaction) error) error {
		return s.write(ctx, func(tx postgresTx) error { return fn(tx) })
	}
	return s
}

// Derive makes new memories get a derived index in the transaction that stores them. Call it before the first write.
func (s *Postgres) Derive(name string, index Derived[postgres.WriteTx]) {
	s.derived[name] = deriver(index, func(tx transaction) postgres.WriteTx {
		return postgres.WriteTx{Tx: tx.(postgresTx).Tx, Changes: tx.(postgresTx).Changes}
	})
}

// postgresTx is a transaction of a Postgres store.
type postgresTx struct {
	*Postgres
	pgx.Tx
	postgres.Changes // nil for a transaction that only reads
}

var _ transaction = postgresTx{}

// write runs fn in a transaction, and retries it after a conflict: another one stored the same key, for example, or
// deleted the namespace before its first memory.
func (s *Postgres) write(ctx context.Context, fn func(postgresTx) error) error {
	settings := fmt.Sprintf("; SET LOCAL lock_timeout = %d", s.lockTime.Milliseconds())
	var err error
	for range txAttempts {
		err = postgres.Write(ctx, s.pool, settings, func(tx pgx.Tx, changes postgres.Changes) error { return fn(postgresTx{s, tx, changes}) })
		if !postgres.IsRetryable(err) && !postgres.IsUniqueViolation(err) && !postgres.IsForeignKeyViolation(err) && !errors.Is(err, errNamespaceGone) {
			break
		}
	}
	err = s.wrap(ctx, err)
	s.Last.Note(ctx, err)
	if err == nil && s.Committed != nil {
		s.Committed()
	}
	return err
}

// wrap translates a write's error for callers.
func (s *Postgres) wrap(ctx context.Context, err error) error {
	switch {
	case postgres.IsLockTimeout(err):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case postgres.IsReadOnly(err) && s.primary(ctx): // hosted servers become read-only when their disk is full
		return fmt.Errorf("%w: %w", diskerr.ErrReadOnly, err)
	}
	return postgres.Wrap(err)
}

// primary reports whether the server is known to be no standby.
func (s *Postgres) primary(ctx context.Context) bool {
	var standby bool
	err := s.pool.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
	return err == nil && !standby
}

func (tx postgresTx) insert(ctx context.Context, records []record.Record, ready prepared) ([]Inserted, error) {
	sequences, err := prepare(ctx, tx.Tx, records)
	if err != nil {
		return nil, err
	}
	plan, err := tx.plan(ctx, records)
	if err != nil || len(plan.fresh) == 0 {
		return plan.outcome(), err
	}
	for i := range plan.fresh {
		plan.fresh[i].Sequence = sequences[i]
	}
	if err := tx.store(ctx, plan.fresh); err != nil {
		return nil, err
	}
	if err := tx.index(ctx, plan.fresh, ready); err != nil {
		return nil, err
	}
	if err := link(ctx, tx, plan.fresh); err != nil {
		return nil, err
	}
	return plan.outcome(), ready.put(ctx, tx, plan.fresh)
}

// errNamespaceGone says that a namespace was deleted after the transaction had created or found it.
var errNamespaceGone = errors.New("the namespace has been deleted meanwhile")

// store inserts records with their sequences, by a statement for each namespace. It joins the namespace's row, so a distributed engine
// inserts where that is.
func (tx postgresTx) store(ctx context.Context, records []record.Record) error {
	batch := &pgx.Batch{}
	for _, namespace := range namespacesOf(records) {
		var c struct {
			ids                                                                             []uuid.UUID
			contents, titles, keywords, tags, categories, metadata, sources, links, threads []string
			importance                                                                      []float64
			sensitive                                                                       []bool
			created, updated                                                                []time.Time
			occurred, expires                                                               []*time.Time
			supersedes, supersededBy                                                        []*uuid.UUID
			revisions, sequences                                                            []int64
			keys                                                                            []*string
			positions                                                                       []*int64
		}
		for _, r := range records {
			if r.Namespace != namespace {
				continue
			}
			metadata, links, err := documents(r)
			if err != nil {
				return err
			}
			c.ids, c.contents, c.titles, c.categories = append(c.ids, r.ID), append(c.contents, r.Content), append(c.titles, r.Title), append(c.categories, r.Category)
			c.keywords, c.tags = append(c.keywords, arrayText(r.Keywords)), append(c.tags, arrayText(r.Tags))
			c.metadata, c.links = append(c.metadata, metadata), append(c.links, links)
			c.importance, c.sensitive, c.sources = append(c.importance, r.Importance), append(c.sensitive, r.Sensitive), append(c.sources, r.Source)
			c.created, c.updated = append(c.created, r.CreatedAt), append(c.updated, r.UpdatedAt)
			c.occurred, c.expires = append(c.occurred, orNull(r.OccurredAt)), append(c.expires, orNull(r.ExpiresAt))
			c.supersedes, c.supersededBy = append(c.supersedes, orNull(r.Supersedes)), append(c.supersededBy, orNull(r.SupersededBy))
			c.revisions, c.sequences, c.keys = append(c.revisions, r.Revision), append(c.sequences, r.Sequence), append(c.keys, orNull(r.IdempotencyKey))
			c.threads, c.positions = append(c.threads, r.Thread), append(c.positions, r.Position)
			tx.Add(namespace, string(replica.Records), r.ID)
		}
		n := int64(len(c.ids))
		batch.Queue(`
			INSERT INTO memory.memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive,
				source, created_at, updated_at, occurred_at, expires_at, supersedes, superseded_by, revision, idempotency_key, links, thread, position, sequence)
			SELECT n.name, r.id, r.content, r.title, r.keywords::text[], r.tags::text[], r.category, r.metadata::jsonb, r.importance, r.sensitive,
				r.source, r.created, r.updated, r.occurred, r.expires, r.supersedes, r.superseded_by, r.revision, r.key, r.links::jsonb, r.thread, r.position, r.sequence
			FROM memory.namespaces n CROSS JOIN unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::float8[], $10::boolean[],
				$11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::uuid[], $17::uuid[], $18::bigint[], $19::text[],
				$20::text[], $21::text[], $22::bigint[], $23::bigint[])
				AS r (id, content, title, keywords, tags, category, metadata, importance, sensitive, source, created, updated, occurred, expires, supersedes,
					superseded_by, revision, key, links, thread, position, sequence)
			WHERE n.name = $1`,
			namespace, c.ids, c.contents, c.titles, c.keywords, c.tags, c.categories, c.metadata, c.importance, c.sensitive, c.sources, c.created, c.updated,
			c.occurred, c.expires, c.supersedes, c.supersededBy, c.revisions, c.keys, c.links, c.threads, c.positions, c.sequences).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != n {
				return errNamespaceGone
			}
			return nil
		})
	}
	return tx.SendBatch(ctx, batch).Close()
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

// documents returns a record's metadata and links as JSON.
func documents(r record.Record) (metadata, links string, err error) {
	if metadata, links = "{}", "[]"; len(r.Metadata) > 0 {
		var text []byte
		if text, err = json.Marshal(r.Metadata); err != nil {
			return "", "", fmt.Errorf("memory %s cannot be encoded: %w", r.ID, err)
		}
		metadata = string(text)
	}
	if len(r.Links) > 0 {
		var text []byte
		if text, err = json.Marshal(r.Links); err != nil {
			return "", "", fmt.Errorf("memory %s cannot be encoded: %w", r.ID, err)
		}
		links = string(text)
	}
	return metadata, links, nil
}

func (tx postgresTx) plan(ctx context.Context, records []record.Record) (insertPlan, error) {
	return planInsert(records, func(namespace string, ids []uuid.UUID, keys []string) ([]record.Record, error) {
		const held = `SELECT ` + postgres.RecordColumns + ` FROM memory.memories m WHERE m.namespace = $1 AND `
		rows, err := postgres.In(tx, scope(namespacesOf(records))).Query(ctx, held+`m.id = ANY($2)
			UNION ALL `+held+`m.supersedes IS NOT NULL AND m.supersedes = ANY($2)
			UNION ALL `+held+`m.idempotency_key = ANY($3)`, namespace, ids, keys)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, postgres.ScanRecord)
	})
}

// Plan implements Store.
func (s *Postgres) Plan(ctx context.Context, records []record.Record) ([]Inserted, error) {
	var plan insertPlan
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		plan, err = postgresTx{s, tx, nil}.plan(ctx, records)
		return err
	})
	return plan.outcome(), err
}

// planAnew records make a transaction plan its statements anew, which takes some milliseconds. A plan that was made while a table was
// empty may read all of a namespace for a few keys. It is kept until the server has analysed the table a minute later.
const planAnew = 100

// prepare creates the records' namespaces and takes a sequence number for each record.
func prepare(ctx context.Context, tx pgx.Tx, records []record.Record) (sequences []int64, err error) {
	names := namespacesOf(records)
	batch := &pgx.Batch{}
	batch.Queue(`SELECT nextval('memory.write_sequence') FROM generate_series(1, $1)`, len(records)).Query(func(rows pgx.Rows) (err error) {
		sequences, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	for _, name := range names {
		batch.Queue(`INSERT INTO memory.namespaces (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
	}
	if len(records) >= planAnew {
		batch.Queue(`DISCARD PLANS`)
	}
	return sequences, postgres.In(tx, scope(names)).Send(ctx, batch)
}

// scope returns the namespace that postgres.In gets for these namespaces.
func scope(namespaces []string) string {
	if len(namespaces) == 1 {
		return namespaces[0]
	}
	return postgres.AllNamespaces
}

// columns returns a record's values in the order of postgres.RecordColumns; unset ones are NULL.
func columns(r record.Record) []any {
	metadata := r.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	return []any{
		r.Namespace, r.ID, r.Content, r.Title, list(r.Keywords), list(r.Tags), r.Category, metadata, r.Importance, r.Sensitive,
		r.Source, r.CreatedAt, r.UpdatedAt, orNull(r.OccurredAt), orNull(r.ExpiresAt), orNull(r.Supersedes), orNull(r.SupersededBy),
		r.Revision, orNull(r.IdempotencyKey), list(r.Links), r.Thread, r.Position,
	}
}

// list returns an empty list for nil, which would be stored as null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
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
func (tx postgresTx) index(ctx context.Context, records []record.Record, ready prepared) error {
	if err := ready.inline(ctx, tx, records); err != nil {
		return fmt.Errorf("lexical index: %w", err)
	}
	return queue.EnqueuePostgres(ctx, tx.Tx, records, slices.Collect(maps.Keys(ready.derived)))
}

func (tx postgresTx) current(ctx context.Context, namespace string, id uuid.UUID) (record.Record, error) {
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+postgres.RecordColumns+` FROM memory.memories m WHERE m.namespace = $1 AND m.id = $2 FOR UPDATE`, namespace, id)
	if err != nil {
		return record.Record{}, err
	}
	current, err := pgx.CollectExactlyOneRow(rows, postgres.ScanRecord)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Record{}, ErrNotFound
	}
	return current, err
}

func (tx postgresTx) replace(ctx context.Context, r *record.Record) error {
	// Asked for first: a distributed engine evaluates nothing volatile in an update.
	if err := tx.QueryRow(ctx, `SELECT nextval('memory.write_sequence')`).Scan(&r.Sequence); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE memory.memories SET content = $3, title = $4, expanded_keywords = $5, tags = $6, category = $7, metadata = $8, importance = $9,
			source = $11, created_at = $12, updated_at = $13, occurred_at = $14, expires_at = $15, supersedes = $16,
			superseded_by = $17, revision = $18, idempotency_key = $19, links = $20, thread = $21, position = $22, sequence = $23
		WHERE namespace = $1 AND id = $2 AND sensitive = $10`, append(columns(*r), r.Sequence)...)
	if err != nil {
		return err
	}
	tx.Add(r.Namespace, string(replica.Records), r.ID)
	if tag.RowsAffected() == 0 { // derived rows say whether their memory is sensitive: they go with the former row
		if _, err := tx.erase(ctx, r.Namespace, []uuid.UUID{r.ID}); err != nil {
			return err
		}
		if err := tx.store(ctx, []record.Record{*r}); err != nil {
			return err
		}
		tx.Add(r.Namespace, string(replica.Vectors), r.ID)
		tx.Add(r.Namespace, string(replica.Graph), r.ID)
	}
	return tx.index(ctx, []record.Record{*r}, tx.unprepared(ctx))
}

func (tx postgresTx) remove(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	// The successor of a forgotten memory supersedes nothing any more.
	if err := tx.change(ctx, namespace, `UPDATE memory.memories SET supersedes = NULL WHERE namespace = $1 AND supersedes = ANY($2) RETURNING id`, namespace, ids); err != nil {
		return 0, err
	}
	return tx.erase(ctx, namespace, ids)
}

// erase deletes memories; foreign keys delete what is derived from them.
func (tx postgresTx) erase(ctx context.Context, namespace string, ids []uuid.UUID) (n int64, err error) {
	// In this order nobody waits in a circle.
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT id FROM memory.memories WHERE namespace = $1 AND id = ANY($2) ORDER BY id FOR UPDATE`, namespace, ids)
	if err != nil {
		return 0, err
	}
	doomed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(doomed) == 0 {
		return 0, err
	}
	tx.Add(namespace, string(replica.Records), doomed...)
	batch := &pgx.Batch{}
	batch.Queue(`SELECT graph.forget($1, $2)`, namespace, doomed)
	batch.Queue(`DELETE FROM memory.memories WHERE namespace = $1 AND id = ANY($2)`, namespace, doomed).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	return n, tx.SendBatch(ctx, batch).Close()
}

// change runs a statement that returns the ids of the memories that it changes.
func (tx postgresTx) change(ctx context.Context, namespace, statement string, args ...any) error {
	rows, err := postgres.In(tx, namespace).Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	tx.Add(namespace, string(replica.Records), ids...)
	return err
}

func (tx postgresTx) links(ctx context.Context, namespace string, ids []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT id FROM memory.memories
		WHERE namespace = $1 AND id = ANY($2) AND supersedes IS NOT NULL AND superseded_by IS NOT NULL ORDER BY id`, namespace, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

func (tx postgresTx) bridge(ctx context.Context, namespace string, id uuid.UUID) error {
	for _, statement := range []string{
		`UPDATE memory.memories m SET superseded_by = gone.superseded_by FROM memory.memories gone
			WHERE gone.namespace = $1 AND gone.id = $2 AND m.namespace = $1 AND m.id = gone.supersedes AND m.superseded_by = gone.id RETURNING m.id`,
		`UPDATE memory.memories m SET supersedes = gone.supersedes FROM memory.memories gone
			WHERE gone.namespace = $1 AND gone.id = $2 AND m.namespace = $1 AND m.id = gone.superseded_by AND m.supersedes = gone.id RETURNING m.id`,
	} {
		if err := tx.change(ctx, namespace, statement, namespace, id); err != nil {
			return err
		}
	}
	return nil
}

func (tx postgresTx) expired(ctx context.Context, before time.Time, n int) (map[string][]uuid.UUID, error) {
	rows, err := postgres.In(tx, postgres.AllNamespaces).Query(ctx, `SELECT namespace, id FROM memory.memories WHERE expires_at < $1 ORDER BY expires_at LIMIT $2`, before, n)
	if err != nil {
		return nil, err
	}
	found := map[string][]uuid.UUID{}
	var namespace string
	var id uuid.UUID
	if _, err = pgx.ForEachRow(rows, []any{&namespace, &id}, func() error {
		found[namespace] = append(found[namespace], id)
		return nil
	}); err != nil {
		return nil, err
	}
	expired := map[string][]uuid.UUID{}
	for _, namespace := range slices.Sorted(maps.Keys(found)) { // locks are had within a namespace
		rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT id FROM memory.memories
			WHERE namespace = $1 AND id = ANY ($2) AND expires_at < $3 ORDER BY id FOR UPDATE SKIP LOCKED`, namespace, found[namespace], before)
		if err != nil {
			return nil, err
		}
		if expired[namespace], err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return nil, err
		}
	}
	return expired, nil
}

// Get implements Store.
func (s *Postgres) Get(ctx context.Context, namespace string, ids []uuid.UUID) (records []record.Record, err error) {
	err = s.read(ctx, func(pool *pgxpool.Pool) error {
		records, err = get(ctx, pool, namespace, ids)
		return err
	})
	return records, err
}

// read calls fn with the primary, or with the standby while the primary is unreachable.
func (s *Postgres) read(ctx context.Context, fn func(*pgxpool.Pool) error) error {
	if !s.Standby.Alone() {
		if err := fn(s.pool); s.Standby == nil || !postgres.IsUnreachable(err) {
			return err
		}
	}
	if behind, ok := ctx.Value(behindKey{}).(*bool); ok && s.Standby != nil {
		*behind = true
	}
	return fn(s.Standby.Or(s.pool))
}

// behindKey is the key of a *bool that becomes true when a standby is read, which may not have replayed the newest writes.
type behindKey struct{}

func get(ctx context.Context, pool *pgxpool.Pool, namespace string, ids []uuid.UUID) ([]record.Record, error) {
	rows, err := postgres.In(pool, namespace).Query(ctx, `SELECT `+postgres.RecordColumns+` FROM unnest($2::uuid[]) WITH ORDINALITY AS wanted (id, position)
		JOIN memory.memories m ON m.namespace = $1 AND m.id = wanted.id ORDER BY wanted.position`, namespace, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, postgres.ScanRecord)
}

// Matches implements Store.
func (s *Postgres) Matches(ctx context.Context, namespace, query string, records []record.Record) ([]record.Matches, error) {
	var matches []record.Matches
	err := s.read(ctx, func(pool *pgxpool.Pool) (err error) {
		matches, err = s.words.Matches(ctx, pool, namespace, query, records)
		return err
	})
	return matches, err
}

// List implements Store.
func (s *Postgres) List(ctx context.Context, namespace string, filter record.Filter, after Cursor, n int) ([]record.Record, error) {
	args := postgres.Args{namespace}
	where := postgres.Live(filter, "m", &args)
	if after != (Cursor{}) {
		where += fmt.Sprintf(" AND (m.created_at, m.id) < (%s, %s)", args.Add(after.CreatedAt), args.Add(after.ID))
	}
	rows, err := postgres.In(s.pool, namespace).Query(ctx, fmt.Sprintf(`SELECT %s FROM memory.memories m WHERE m.namespace = $1 AND %s
		ORDER BY m.created_at DESC, m.id DESC LIMIT %s`, postgres.RecordColumns, where, args.Add(n)), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, postgres.ScanRecord)
}

// Page implements Store.
func (s *Postgres) Page(ctx context.Context, namespace string, after Cursor, n int) (page Page, err error) {
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		err := postgres.In(tx, namespace).QueryRow(ctx, `SELECT created_at FROM memory.namespaces WHERE name = $1`, namespace).Scan(&page.Created)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		page.Records, err = postgresTx{s, tx, nil}.newer(ctx, namespace, after, n)
		return err
	})
	return page, err
}

// Scan implements Store.
func (s *Postgres) Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error {
	return s.snapshot(ctx, func(tx pgx.Tx) error {
		return scan(fn, func(after Cursor) ([]record.Record, error) {
			return postgresTx{s, tx, nil}.newer(ctx, namespace, after, batch)
		})
	})
}

// snapshot runs fn in a read-only transaction on one snapshot.
func (s *Postgres) snapshot(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

// newer returns up to n records after the cursor, oldest first.
func (tx postgresTx) newer(ctx context.Context, namespace string, after Cursor, n int) ([]record.Record, error) {
	args := postgres.Args{namespace, n}
	where := ""
	if after != (Cursor{}) {
		where = fmt.Sprintf(" AND (m.created_at, m.id) > (%s, %s)", args.Add(after.CreatedAt), args.Add(after.ID))
	}
	rows, err := postgres.In(tx, namespace).Query(ctx, `SELECT `+postgres.RecordColumns+` FROM memory.memories m WHERE m.namespace = $1`+where+`
		ORDER BY m.created_at, m.id LIMIT $2`, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, postgres.ScanRecord)
}
