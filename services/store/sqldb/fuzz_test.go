package sqldb

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/record"
)

// FuzzScanRecord reads a memory whose columns hold anything, as SQLite keeps it: it is one that can be sent, or undecodable.
func FuzzScanRecord(f *testing.F) {
	f.Add("content", `["a"]`, `{"a": [1, null, {"b": true}]}`, `[{"target": "6a0f2c1e-8f0a-4c0e-9d57-0d5d1d4b2f10", "relation": "r"}]`, int64(0), 0.5, int64(1))
	f.Add("\xff", `["\ud800"]`, `{"a": 1e999}`, `[{"target": "private"}]`, int64(-1<<63), -1.0, int64(-1))
	id := uuid.UUID{1}
	f.Fuzz(func(t *testing.T, content, list, metadata, links string, micros int64, importance float64, revision int64) {
		values := []any{
			"n", id[:], content, content, list, list, content, metadata, importance, true, content,
			micros, micros, micros, nil, nil, nil, revision, content, links, revision, content, revision,
		}
		r, err := ScanRecord(func(targets ...any) error {
			for i, target := range slice.Map(targets, sqliteTarget) {
				switch to := target.(type) {
				case sql.Scanner:
					if err := to.Scan(values[i]); err != nil {
						return err
					}
				case *string:
					*to = values[i].(string)
				case **string:
					*to = &content
				case *float64:
					*to = values[i].(float64)
				case *bool:
					*to = values[i].(bool)
				case **int64:
					*to = &revision
				case *int64:
					*to = values[i].(int64)
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
			record.ToProto(r)
		}
	})
}
