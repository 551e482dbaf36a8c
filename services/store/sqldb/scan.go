package sqldb

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/record"
)

// ScanRecord reads a row of record.Columns, followed by any other targets. A row that cannot be decoded is a
// *record.UndecodableError.
func ScanRecord(scan Scan, more ...any) (record.Record, error) {
	r := record.Record{Keywords: []string{}, Tags: []string{}, Metadata: map[string]any{}, Links: []record.Link{}}
	var key *string
	err := scan(append([]any{
		&r.Namespace, &r.ID, &r.Content, &r.Title, &document{"expanded_keywords", "[]", &r.Keywords}, &document{"tags", "[]", &r.Tags}, &r.Category,
		&document{"metadata", "{}", &r.Metadata}, &r.Importance, &r.Sensitive, &r.Source, &r.CreatedAt, &r.UpdatedAt, &r.OccurredAt, &r.ExpiresAt,
		&r.Supersedes, &r.SupersededBy, &r.Revision, &key, &document{"links", "[]", &r.Links}, &r.Sequence, &r.Thread, &r.Position,
	}, more...)...)
	bad := &record.UndecodableError{}
	var wrong pgx.ScanArgError
	switch {
	case errors.As(err, &bad):
	case errors.As(err, &wrong):
		bad.Column = wrong.FieldName
	case err != nil && r.ID == uuid.Nil:
		return record.Record{}, err
	case err == nil: // else the id was read, so a later column is bad
		if key != nil {
			r.IdempotencyKey = *key
		}
		for _, text := range [][2]string{
			{"content", r.Content}, {"title", r.Title}, {"category", r.Category}, {"source", r.Source}, {"idempotency_key", r.IdempotencyKey}, {"thread", r.Thread},
		} {
			if bad.Column == "" && !utf8.ValidString(text[1]) { // SQLite accepts any bytes
				bad.Column = text[0]
			}
		}
		if bad.Column == "" {
			return r, nil
		}
	}
	bad.Namespace, bad.ID = r.Namespace, r.ID
	return record.Record{}, bad
}

// document is a column that SQLite has as JSON, with that of what to has already.
type document struct {
	column, empty string
	to            any
}

// Scan implements sql.Scanner.
func (d *document) Scan(from any) error {
	var text sql.NullString
	err := text.Scan(from)
	if err == nil && text.String == d.empty {
		return nil
	}
	if err != nil || !utf8.ValidString(text.String) || json.Unmarshal([]byte(text.String), d.to) != nil {
		return &record.UndecodableError{Column: d.column}
	}
	return nil
}

// FromPostgres returns the Scan of a row.
func FromPostgres(row pgx.CollectableRow) Scan {
	return func(targets ...any) error { return row.Scan(slice.Map(targets, PostgresTarget)...) }
}

// PostgresTarget returns what pgx scans a column into for a target of Scan.
func PostgresTarget(target any) any {
	switch t := target.(type) {
	case *uuid.UUID:
		return (*postgresID)(t)
	case *time.Time:
		return (*postgresTime)(t)
	case *document:
		return t.to
	}
	return target
}

// postgresID is an id as pgx has it. For a uuid.UUID, which is an sql.Scanner, it would make text of that.
type postgresID uuid.UUID

// ScanUUID implements pgtype.UUIDScanner.
func (id *postgresID) ScanUUID(v pgtype.UUID) error {
	*id = v.Bytes
	return nil
}

// postgresTime is a time in UTC.
type postgresTime time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t *postgresTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.InfinityModifier != pgtype.Finite {
		return errors.New("the time is infinite")
	}
	if *t = (postgresTime{}); v.Valid {
		*t = postgresTime(v.Time.UTC())
	}
	return nil
}

func sqliteTarget(target any) any {
	if t, is := target.(*time.Time); is {
		return (*sqliteTime)(t)
	}
	return target
}

// sqliteTime is a time in UTC, from microseconds.
type sqliteTime time.Time

// Scan implements sql.Scanner.
func (t *sqliteTime) Scan(from any) error {
	var micros sql.NullInt64
	if err := micros.Scan(from); err != nil {
		return err
	}
	*t = sqliteTime{}
	if micros.Valid {
		*t = sqliteTime(time.UnixMicro(micros.Int64).UTC())
	}
	return nil
}
