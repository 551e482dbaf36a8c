package dense_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestUnreadableVectorIsAnError spoils one of two vectors: PostgreSQL refuses that, and on SQLite the search does.
func TestUnreadableVectorIsAnError(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "sound", "the cello lesson", nil)
		bad := c.add(t, f, s, "bad", "a cello concert", nil)
		if f.Engine == schema.Postgres {
			_, err := f.Pool.Exec(t.Context(), `UPDATE dense.vectors SET embedding = '[1,2,3]' WHERE memory_id = $1`, bad.ID)
			if err == nil || !strings.Contains(err.Error(), "dimensions") {
				t.Errorf("a vector of another length: %v", err)
			}
			return
		}
		// As vectors are never changed in place, the spoilt one comes under a new id.
		for _, embedding := range []string{"x'00000000'", fmt.Sprintf("zeroblob(%d)", 2*embed.NewHashed().Model().Dimensions)} {
			if _, err := f.DB.Write.ExecContext(t.Context(), `
				INSERT OR REPLACE INTO dense_vectors (namespace, memory_id, model_id, revision, embedding)
				SELECT namespace, memory_id, model_id, revision, `+embedding+` FROM dense_vectors WHERE memory_id = ?`, bad.ID[:]); err != nil {
				t.Fatal(err)
			}
			for _, maxBytes := range []int64{1 << 20, 0} { // in memory, and from the database
				store := other(t, f)
				store.MaxBytes = maxBytes
				result, err := store.Search(t.Context(), leg.Query{Namespace: "ns", Text: "cello", Depth: 10})
				if err == nil || !strings.Contains(err.Error(), "vector") {
					t.Errorf("%s in %d bytes: %+v, %v", embedding, maxBytes, result, err)
				}
			}
		}
	})
}
