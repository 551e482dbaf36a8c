package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// SQLiteIndex is an index kept in the record's own transaction. Foreign keys delete rows of forgotten records.
type SQLiteIndex interface {
	// Prepare does what needs no transaction for records that are about to be stored. put adds or replaces entries of records, these
	// or others.
	Prepare(ctx context.Context, records []record.Record) (put func(ctx context.Context, tx *sql.Tx, records []record.Record) error)
	// Matches returns the places of a query's words in each record of a namespace.
	Matches(ctx context.Context, db *sqlite.DB, namespace, query string, records []record.Record) ([]record.Matches, error)
}

// SQLite keeps records in a SQLite file.
type SQLite struct {
	writes
	db    *sqlite.DB
	words SQLiteIndex
	wake  func()
}

var _ Store = (*SQLite)(nil)

// NewSQLite returns a store that keeps the inline index in each record's transaction and calls wake after each write.
func NewSQLite(db *sqlite.DB, words SQLiteIndex, wake func()) *SQLite {
	s := &SQLite{db: db, words: words, wake: wake}
	s.inline = func(ctx context.Context, records []record.Record) inlinePutter {
		put := words.Prepare(ctx, records)
		return func(ctx context.Context, tx transaction, records []record.Record) error {
			return put(ctx, tx.(sqliteTx).Tx, records)
		}
	}
	s.derived = derivers{}
	s.run = func(ctx context.Context, fn func(transaction) error) error {
		return s.write(ctx, func(tx sqliteTx) error { return fn(tx) })
	}
	return s
}

// Derive makes new memories get a derived index in the transaction that stores them. Call it before the first write.
func (s *SQLite) Derive(name string, index Derived[*sql.Tx]) {
	s.derived[name] = deriver(index, func(tx transaction) *sql.Tx { return tx.(sqliteTx).Tx })
}

// sqliteTx is a transaction of a SQLite store.
type sqliteTx struct {
	*SQLite
	*sql.Tx
}

var _ transaction = sqliteTx{}

func (s *SQLite) write(ctx context.Context, fn func(sqliteTx) error) error {
	if err := s.db.Update(ctx, func(tx *sql.Tx) error { return fn(sqliteTx{s, tx}) }); err != nil {
		if sqlite.IsBusy(err) {
			err = fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return err
	}
	s.wake()
	return nil
}

func (tx sqliteTx) insert(ctx context.Context, records []record.Record, ready prepared) ([]Inserted, error) {
	for _, namespace := range namespacesOf(records) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING`, namespace); err != nil {
			return nil, err
		}
	}
	plan, err := planSQLite(ctx, tx, records)
	if err != nil || len(plan.fresh) == 0 {
		return plan.outcome(), err
	}
	insert, err := tx.PrepareContext(ctx, `
		INSERT INTO memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source,
			created_at, updated_at, occurred_at, expires_at, supersedes, superseded_by, revision, idempotency_key, links, sequence, thread, position)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = insert.Close() }()
	sequence, err := tx.numbers(ctx, len(plan.fresh))
	if err != nil {
		return nil, err
	}
	for i := range plan.fresh {
		r := &plan.fresh[i]
		r.Sequence = sequence + int64(i)
		values, err := sqliteColumns(*r)
		if err != nil {
			return nil, err
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return nil, err
		}
	}
	if err := tx.index(ctx, plan.fresh, ready); err != nil {
		return nil, err
	}
	if err := link(ctx, tx, plan.fresh); err != nil {
		return nil, err
	}
	return plan.outcome(), ready.put(ctx, tx, plan.fresh)
}

func planSQLite(ctx context.Context, db sqlite.Queryer, records []record.Record) (insertPlan, error) {
	return planInsert(records, func(namespace string, ids []uuid.UUID, keys []string) ([]record.Record, error) {
		args := sqlite.Args{namespace}
		list := idList(&args, ids)
		const held = `SELECT ` + sqlite.RecordColumns + ` FROM memories m WHERE m.namespace = ?1 AND `
		// One SELECT per index: SQLite would read the whole namespace for an OR.
		return query(ctx, db, held+`m.id IN (`+list+`) UNION ALL `+held+`m.supersedes IN (`+list+`)
			UNION ALL `+held+`m.idempotency_key IN (SELECT value FROM json_each(`+args.AddJSON(keys)+`))`, args...)
	})
}

// Plan implements Store.
func (s *SQLite) Plan(ctx context.Context, records []record.Record) ([]Inserted, error) {
	plan, err := planSQLite(ctx, s.db.Read, records)
	return plan.outcome(), err
}

// idList returns placeholders of ids for an IN. Ids are blobs, which JSON cannot carry.
func idList(args *sqlite.Args, ids []uuid.UUID) string {
	var list []byte
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, args.Add(id[:])...)
	}
	return string(list)
}

// sqliteColumns returns a record's values in the order of sqlite.RecordColumns.
func sqliteColumns(r record.Record) ([]any, error) {
	metadata := r.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	var texts [4]string
	for i, v := range []any{list(r.Keywords), list(r.Tags), metadata, list(r.Links)} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("memory %s cannot be encoded: %w", r.ID, err)
		}
		texts[i] = string(text)
	}
	return []any{
		r.Namespace, r.ID[:], r.Content, r.Title, texts[0], texts[1], r.Category, texts[2], r.Importance, r.Sensitive, r.Source,
		sqlite.Micros(r.CreatedAt), sqlite.Micros(r.UpdatedAt), sqlite.Micros(r.OccurredAt), sqlite.Micros(r.ExpiresAt),
		sqlite.ID(r.Supersedes), sqlite.ID(r.SupersededBy), r.Revision, orNull(r.IdempotencyKey),
		texts[3], r.Sequence, r.Thread, r.Position,
	}, nil
}

// numbers takes the next n write sequences and returns the first.
func (tx sqliteTx) numbers(ctx context.Context, n int) (first int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE write_sequence SET last = last + ? RETURNING last - ? + 1`, n, n).Scan(&first)
	return first, err
}

// index updates the inline index and enqueues the derived ones that are not ready.
func (tx sqliteTx) index(ctx context.Context, records []record.Record, ready prepared) error {
	if err := ready.inline(ctx, tx, records); err != nil {
		return fmt.Errorf("lexical index: %w", err)
	}
	return queue.EnqueueSQLite(ctx, tx.Tx, records, slices.Collect(maps.Keys(ready.derived)))
}

// current needs no lock: its transaction has the only write connection.
func (tx sqliteTx) current(ctx context.Context, namespace string, id uuid.UUID) (record.Record, error) {
	found, err := query(ctx, tx, `SELECT `+sqlite.RecordColumns+` FROM memories m WHERE m.namespace = ? AND m.id = ?`, namespace, id[:])
	switch {
	case err != nil:
		return record.Record{}, err
	case len(found) == 0:
		return record.Record{}, ErrNotFound
	}
	return found[0], nil
}

func (tx sqliteTx) replace(ctx context.Context, r *record.Record) error {
	var err error
	if r.Sequence, err = tx.numbers(ctx, 1); err != nil {
		return err
	}
	values, err := sqliteColumns(*r)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE memories SET content = ?3, title = ?4, expanded_keywords = ?5, tags = ?6, category = ?7, metadata = ?8, importance = ?9,
			sensitive = ?10, source = ?11, created_at = ?12, updated_at = ?13, occurred_at = ?14, expires_at = ?15, supersedes = ?16,
			superseded_by = ?17, revision = ?18, idempotency_key = ?19, links = ?20, sequence = ?21, thread = ?22, position = ?23
		WHERE namespace = ?1 AND id = ?2`, values...); err != nil {
		return err
	}
	return tx.index(ctx, []record.Record{*r}, tx.unprepared(ctx))
}

func (tx sqliteTx) remove(ctx context.Context, namespace string, ids []uuid.UUID) (int64, error) {
	args := sqlite.Args{namespace}
	list := idList(&args, ids)
	// The successor of a forgotten memory supersedes nothing any more; foreign keys delete derived rows.
	if _, err := tx.ExecContext(ctx, `UPDATE memories SET supersedes = NULL WHERE namespace = ?1 AND supersedes IN (`+list+`)`, args...); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `DELETE FROM memories WHERE namespace = ?1 AND id IN (`+list+`)`, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx sqliteTx) links(ctx context.Context, namespace string, ids []uuid.UUID) ([]uuid.UUID, error) {
	args := sqlite.Args{namespace}
	return sqlite.Query(ctx, tx, func(scan func(...any) error) (id uuid.UUID, err error) {
		err = scan(&id)
		return id, err
	}, `SELECT id FROM memories WHERE namespace = ?1 AND id IN (`+idList(&args, ids)+`)
		AND supersedes IS NOT NULL AND superseded_by IS NOT NULL ORDER BY id`, args...)
}

func (tx sqliteTx) bridge(ctx context.Context, namespace string, id uuid.UUID) error {
	for _, statement := range []string{
		`UPDATE memories SET superseded_by = gone.superseded_by FROM memories gone
			WHERE gone.namespace = ?1 AND gone.id = ?2 AND memories.namespace = ?1 AND memories.id = gone.supersedes AND memories.superseded_by = gone.id`,
		`UPDATE memories SET supersedes = gone.supersedes FROM memories gone
			WHERE gone.namespace = ?1 AND gone.id = ?2 AND memories.namespace = ?1 AND memories.id = gone.superseded_by AND memories.supersedes = gone.id`,
	} {
		if _, err := tx.ExecContext(ctx, statement, namespace, id[:]); err != nil {
			return err
		}
	}
	return nil
}

func (tx sqliteTx) expired(ctx context.Context, before time.Time, n int) (map[string][]uuid.UUID, error) {
	expired := map[string][]uuid.UUID{}
	_, err := sqlite.Query(ctx, tx, func(scan func(...any) error) (_ struct{}, err error) {
		var namespace string
		var id uuid.UUID
		err = scan(&namespace, &id)
		expired[namespace] = append(expired[namespace], id)
		return struct{}{}, err
	}, `SELECT namespace, id FROM memories WHERE expires_at < ? ORDER BY expires_at LIMIT ?`, before.UnixMicro(), n)
	return expired, err
}

// Get implements Store.
func (s *SQLite) Get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error) {
	args := sqlite.Args{namespace}
	found, err := query(ctx, s.db.Read, `SELECT `+sqlite.RecordColumns+` FROM memories m WHERE m.namespace = ?1 AND m.id IN (`+idList(&args, ids)+`)`, args...)
	if err != nil {
		return nil, err
	}
	places := make(map[uuid.UUID]int, len(found))
	for i := range found {
		places[found[i].ID] = i
	}
	ordered := make([]record.Record, 0, len(found))
	for _, id := range ids {
		if at, is := places[id]; is {
			ordered = append(ordered, found[at])
		}
	}
	return ordered, nil
}

// Matches implements Store.
func (s *SQLite) Matches(ctx context.Context, namespace, query string, records []record.Record) ([]record.Matches, error) {
	return s.words.Matches(ctx, s.db, namespace, query, records)
}

// List implements Store.
func (s *SQLite) List(ctx context.Context, namespace string, filter record.Filter, after Cursor, n int) ([]record.Record, error) {
	args := sqlite.Args{namespace}
	where := sqlite.Live(filter, "m", &args)
	if after != (Cursor{}) {
		where += fmt.Sprintf(" AND (m.created_at, m.id) < (%s, %s)", args.Add(after.CreatedAt.UnixMicro()), args.Add(after.ID[:]))
	}
	return query(ctx, s.db.Read, fmt.Sprintf(`SELECT %s FROM memories m WHERE m.namespace = ?1 AND %s ORDER BY m.created_at DESC, m.id DESC LIMIT %s`,
		sqlite.RecordColumns, where, args.Add(n)), args...)
}

// Page implements Store.
func (s *SQLite) Page(ctx context.Context, namespace string, after Cursor, n int) (page Page, err error) {
	err = s.snapshot(ctx, func(tx *sql.Tx) error {
		var created sql.NullInt64
		err := tx.QueryRowContext(ctx, `SELECT created_at FROM namespaces WHERE name = ?`, namespace).Scan(&created)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		page.Created = sqlite.Time(created)
		page.Records, err = newer(ctx, tx, namespace, after, n)
		return err
	})
	return page, err
}

// Scan implements Store.
func (s *SQLite) Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error {
	return s.snapshot(ctx, func(tx *sql.Tx) error {
		return scan(fn, func(after Cursor) ([]record.Record, error) { return newer(ctx, tx, namespace, after, batch) })
	})
}

// snapshot runs fn in a read-only transaction on one snapshot.
func (s *SQLite) snapshot(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.db.Read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(tx)
}

// newer returns up to n records after the cursor, oldest first.
func newer(ctx context.Context, db sqlite.Queryer, namespace string, after Cursor, n int) ([]record.Record, error) {
	args := sqlite.Args{namespace}
	where := ""
	if after != (Cursor{}) {
		where = fmt.Sprintf(" AND (m.created_at, m.id) > (%s, %s)", args.Add(after.CreatedAt.UnixMicro()), args.Add(after.ID[:]))
	}
	return query(ctx, db, fmt.Sprintf(`SELECT %s FROM memories m WHERE m.namespace = ?1%s ORDER BY m.created_at, m.id LIMIT %s`,
		sqlite.RecordColumns, where, args.Add(n)), args...)
}

// query returns the records of a statement that selects sqlite.RecordColumns.
func query(ctx context.Context, db sqlite.Queryer, statement string, args ...any) ([]record.Record, error) {
	return sqlite.Query(ctx, db, func(scan func(...any) error) (record.Record, error) { return sqlite.ScanRecord(scan) }, statement, args...)
}
