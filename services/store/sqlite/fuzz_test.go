package sqlite_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqlite"
)

// FuzzScanRecord reads a memory whose columns hold anything, as SQLite keeps it: it is one that can be sent, or undecodable.
func FuzzScanRecord(f *testing.F) {
	f.Add("content", `["a"]`, `{"a": [1, null, {"b": true}]}`, `[{"target": "6a0f2c1e-8f0a-4c0e-9d57-0d5d1d4b2f10", "relation": "r"}]`, int64(0), 0.5, int64(1))
	f.Add("\xff", `["\ud800"]`, `{"a": 1e999}`, `[{"target": "private"}]`, int64(-1<<63), -1.0, int64(-1))
	f.Fuzz(func(t *testing.T, content, list, metadata, links string, micros int64, importance float64, revision int64) {
		values := []any{
			"n", uuid.UUID{1}, content, content, list, list, content, metadata, importance, true, content,
			sql.NullInt64{Int64: micros, Valid: true}, sql.NullInt64{Int64: micros, Valid: true}, sql.NullInt64{Int64: micros, Valid: true}, sql.NullInt64{},
			uuid.NullUUID{}, uuid.NullUUID{}, revision, sql.NullString{String: content, Valid: true}, links, revision, content, &revision,
		}
		r, err := sqlite.ScanRecord(func(targets ...any) error {
			for i, target := range targets {
				switch to := target.(type) {
				case *string:
					*to = values[i].(string)
				case *uuid.UUID:
					*to = values[i].(uuid.UUID)
				case *float64:
					*to = values[i].(float64)
				case *bool:
					*to = values[i].(bool)
				case **int64:
					*to = values[i].(*int64)
				case *int64:
					*to = values[i].(int64)
				case *sql.NullInt64:
					*to = values[i].(sql.NullInt64)
				case *sql.NullString:
					*to = values[i].(sql.NullString)
				case *uuid.NullUUID:
					*to = values[i].(uuid.NullUUID)
				default:
					t.Fatalf("a column is read into a %T", target)
				}
			}
			return nil
		})
		var undecodable *record.UndecodableError
		if err != nil && !errors.As(err, &undecodable) {
			t.Fatalf("got %v, want an undecodable memory", err)
		}
		if err == nil {
			_, _ = record.ToProto(r) // an error, or not
		}
	})
}
