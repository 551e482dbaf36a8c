package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// txAttempts limits the attempts of a transaction that conflicts with concurrent ones.
const txAttempts = 5

// Index is an index kept in the record's own transaction. Foreign keys delete rows of forgotten records.
type Index interface {
	// Prepare does what needs no transaction for records that are about to be stored. put adds or replaces entries of records, these
	// or others.
	Prepare(ctx context.Context, records []record.Record) (put func(ctx context.Context, tx sqldb.Tx, records []record.Record) error)
	// Matches returns the places of a query's words in each record of a namespace.
	Matches(ctx context.Context, db sqldb.DB, namespace, query string, records []record.Record) ([]record.Matches, error)
}

// Store keeps records in PostgreSQL or in a SQLite file. An error that prevents all writes is one of package diskerr's. Each writing
// method is one transaction, which also writes the lexical index and enqueues the derived ones. Records are returned as stored and
// belong to the caller.
type Store struct {
	// Last records the outcome of writes to PostgreSQL; replace it before the first call to share one.
	Last *diskerr.Last

	// Committed, if not nil, is called after each write. Set it before the first call.
	Committed func()

	database sqldb.Store
	words    Index
	derived  map[string]Derived
	// lockTime is the lock_timeout of a write.
	lockTime time.Duration
}

// NewStore returns a store that keeps the inline index in each record's transaction.
func NewStore(database sqldb.Store, words Index) *Store {
	return &Store{database: database, words: words, derived: map[string]Derived{}, Last: &diskerr.Last{}, lockTime: 10 * time.Second}
}

// Derive makes new memories get a derived index in the transaction that stores them. Call it before the first write.
func (s *Store) Derive(name string, index Derived) { s.derived[name] = index }

// db returns the database for reads.
func (s *Store) db() sqldb.DB { return s.database.DB() }

// in returns the database for reads about one namespace.
func (s *Store) in(namespace string) sqldb.Scoped { return s.db().In(namespace) }

// transaction is one that writes.
type transaction struct {
	sqldb.Tx
	of *Store
}

// write runs fn in a transaction, and retries it after a conflict: another one stored the same key, for example, or
// deleted the namespace before its first memory.
func (s *Store) write(ctx context.Context, fn func(transaction) error) (err error) {
	settings := fmt.Sprintf("; SET LOCAL lock_timeout = %d", s.lockTime.Milliseconds())
	for range txAttempts {
		err = s.database.Write(ctx, settings, func(tx sqldb.Tx) error { return fn(transaction{tx, s}) })
		if !postgres.IsUniqueViolation(err) && !postgres.IsForeignKeyViolation(err) && !errors.Is(err, errNamespaceGone) {
			break
		}
	}
	if s.database.File == nil {
		err = s.wrap(ctx, err)
		s.Last.Note(ctx, err)
	} else if sqlite.IsBusy(err) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err == nil && s.Committed != nil {
		s.Committed()
	}
	return err
}

// wrap translates an error of PostgreSQL's for callers.
func (s *Store) wrap(ctx context.Context, err error) error {
	switch {
	case postgres.IsLockTimeout(err):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	case postgres.IsReadOnly(err) && s.primary(ctx): // hosted servers become read-only when their disk is full
		return fmt.Errorf("%w: %w", diskerr.ErrReadOnly, err)
	}
	return postgres.Wrap(err)
}

// primary reports whether the server is known to be no standby.
func (s *Store) primary(ctx context.Context) bool {
	var standby bool
	err := s.database.Pool.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
	return err == nil && !standby
}

// returning runs fn in a transaction, as write does, and returns its result.
func returning[T any](ctx context.Context, s *Store, fn func(transaction) (T, error)) (result T, err error) {
	err = s.write(ctx, func(tx transaction) error {
		result, err = fn(tx)
		return err
	})
	return result, err
}

// read calls fn with the database, or with the standby while the primary is unreachable.
func (s *Store) read(ctx context.Context, fn func(sqldb.DB) error) error {
	standby := s.database.Standby
	if standby == nil {
		return fn(s.db())
	}
	if !standby.Alone() {
		if err := fn(s.db()); !postgres.IsUnreachable(err) {
			return err
		}
	}
	if behind, ok := ctx.Value(behindKey{}).(*bool); ok {
		*behind = true
	}
	return fn(sqldb.DB{Postgres: standby.Or(s.database.Pool)})
}

// behindKey is the key of a *bool that becomes true when a standby is read, which may not have replayed the newest writes.
type behindKey struct{}

// Plan returns the results and errors of Insert without storing anything. New records have no Sequence.
func (s *Store) Plan(ctx context.Context, records []record.Record) ([]Inserted, error) {
	return planInsert(ctx, s.db(), records)
}

// Get returns records in the order of ids, leaving out those that do not exist.
func (s *Store) Get(ctx context.Context, namespace string, ids []uuid.UUID) (ordered []record.Record, err error) {
	var found []record.Record
	if err := s.read(ctx, func(db sqldb.DB) (err error) {
		found, err = db.In(namespace).Records(ctx, selectRecords+` AND m.id = ANY($2::uuid[])`, namespace, ids)
		return err
	}); err != nil {
		return nil, err
	}
	places := make(map[uuid.UUID]int, len(found))
	for i := range found {
		places[found[i].ID] = i
	}
	ordered = make([]record.Record, 0, len(found))
	for _, id := range ids {
		if at, is := places[id]; is {
			ordered = append(ordered, found[at])
		}
	}
	return ordered, nil
}

// Matches returns the places of a query's words in each of a namespace's records.
func (s *Store) Matches(ctx context.Context, namespace, query string, records []record.Record) (matches []record.Matches, err error) {
	err = s.read(ctx, func(db sqldb.DB) (err error) {
		matches, err = s.words.Matches(ctx, db, namespace, query, records)
		return err
	})
	return matches, err
}

// List returns up to n records after the cursor, newest first; the zero Cursor starts. Expired records are left out.
func (s *Store) List(ctx context.Context, namespace string, filter record.Filter, after Cursor, n int) ([]record.Record, error) {
	args := sqldb.Args{namespace, n}
	where := s.db().Live(filter, "m", &args) + after.beyond("m.created_at, m.id", "<", &args)
	return s.in(namespace).Records(ctx, selectRecords+` AND `+where+` ORDER BY m.created_at DESC, m.id DESC LIMIT $2`, args...)
}

// behind is the position behind a record.
func behind(r record.Record) Cursor { return Cursor{r.CreatedAt, r.ID} }

// beyond returns a condition on rows that come after a cursor, with a leading AND; "" for the zero Cursor.
func (c Cursor) beyond(columns, comparison string, args *sqldb.Args) string {
	if c == (Cursor{}) {
		return ""
	}
	return fmt.Sprintf(" AND (%s) %s (%s, %s)", columns, comparison, args.Add(c.CreatedAt), args.Add(c.ID))
}

// Page returns up to n records of a namespace after the cursor, oldest first, expired ones included, and when the namespace was
// created, from one snapshot; the zero Cursor starts. ErrNotFound.
func (s *Store) Page(ctx context.Context, namespace string, after Cursor, n int) (records []record.Record, created time.Time, err error) {
	err = s.database.Snapshot(ctx, func(db sqldb.DB) error {
		found, err := db.In(namespace).Get(ctx, `SELECT created_at FROM memory.namespaces WHERE name = $1`, []any{namespace}, &created)
		if err == nil && !found {
			err = ErrNotFound
		}
		if err == nil {
			records, err = newer(ctx, db, namespace, after, n)
		}
		return err
	})
	return records, created, err
}

// Scan calls fn with batches of all records of a namespace from one snapshot, oldest first, until fn returns an
// error. It holds a connection and its snapshot meanwhile, so fn must not wait for clients.
func (s *Store) Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error {
	return s.database.Snapshot(ctx, func(db sqldb.DB) error {
		for after := (Cursor{}); ; {
			records, err := newer(ctx, db, namespace, after, batch)
			if err != nil || len(records) == 0 {
				return err
			}
			if err := fn(records); err != nil {
				return err
			}
			after = behind(records[len(records)-1])
		}
	})
}

// newer returns up to n records after the cursor, oldest first.
func newer(ctx context.Context, db sqldb.DB, namespace string, after Cursor, n int) ([]record.Record, error) {
	args := sqldb.Args{namespace, n}
	return db.In(namespace).Records(ctx, selectRecords+after.beyond("m.created_at, m.id", ">", &args)+` ORDER BY m.created_at, m.id LIMIT $2`, args...)
}
