package replica

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqlite"
)

// TestPollsLeaveTheFileWhole: once the database is closed, the file has all there is. A copy of it lacked what was in SQLite's log.
func TestPollsLeaveTheFileWhole(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.db")
	db, err := sqlite.Open(file, tel.Service("test"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Up(t.Context(), db.Write, schema.SQLite); err != nil {
		t.Fatal(err)
	}
	source := &sqliteSource{db}
	for i, want := range []bool{false, true} {
		changed, err := source.poll(t.Context(), []string{"default"}, []position{{}})
		if err != nil || changed[0] != want {
			t.Errorf("poll %d: got %v, %v, want %v", i, changed, err, want)
		}
		if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO log (namespace, memory_id, part) VALUES ('default', zeroblob(16), 'm')`); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file + "-wal"); !os.IsNotExist(err) {
		t.Errorf("SQLite's log after the database was closed: got %v, want none", err)
	}
}
