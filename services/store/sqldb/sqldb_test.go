package sqldb_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestRows reads rows back: both engines give the same, also of the nil UUID, of the zero time and of no bytes.
func TestRows(t *testing.T) {
	t.Parallel()
	type row struct {
		ID    uuid.UUID
		At    time.Time
		Bytes []byte
		None  bool // Bytes are NULL
		NoID  bool // ID is NULL
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for name, want := range map[string][]row{
		"usual":    {{uuid.New(), at, []byte{0, 1, 255}, false, false}, {uuid.New(), at, []byte("x"), false, false}},
		"zero":     {{uuid.Nil, time.Time{}, []byte("x"), false, false}},
		"no bytes": {{uuid.New(), at, []byte{}, false, false}, {uuid.Nil, at, nil, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
				var rows sqldb.Rows
				for _, r := range want {
					rows = append(rows, []any{r.ID, r.At, r.Bytes})
				}
				got, err := sqldb.Query(t.Context(), sqldb.Store{Pool: f.Pool, File: f.DB}.DB().In("n"), `
					SELECT r.id, r.at, r.bytes, r.bytes IS NULL, r.id IS NULL FROM unnest($1::uuid[], $2::timestamptz[], $3::bytea[]) AS r (id, at, bytes)`,
					[]any{rows}, func(scan sqldb.Scan) (r row, err error) {
						err = scan(&r.ID, &r.At, &r.Bytes, &r.None, &r.NoID)
						return r, err
					})
				if err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if got[i].At = got[i].At.UTC(); len(got[i].Bytes) == 0 && len(want[i].Bytes) == 0 {
						got[i].Bytes = want[i].Bytes
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}
