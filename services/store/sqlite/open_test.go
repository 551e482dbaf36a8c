package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestOpenByManyAtOnce opens a file that is not there yet, as processes do that start at once.
func TestOpenByManyAtOnce(t *testing.T) {
	t.Parallel()
	const rounds, processes = 50, 4
	for range rounds {
		path := filepath.Join(t.TempDir(), "new.db")
		var opening sync.WaitGroup
		for range processes {
			opening.Go(func() {
				db, err := sqlite.Open(path, storetest.Telemetry(t))
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
	}
}
