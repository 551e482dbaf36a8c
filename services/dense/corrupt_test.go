package dense_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestUnreadableVectorIsSkipped spoils one of two vectors: the other one is found.
func TestUnreadableVectorIsSkipped(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		c.add(t, f, s, "sound", "the cello lesson", nil)
		bad := c.add(t, f, s, "bad", "a cello concert", nil)
		spoil := func(embedding string) error {
			if f.Engine == schema.Postgres {
				return exec(f, `UPDATE dense.vectors SET embedding = `+embedding+` WHERE memory_id = $1`, bad.ID)
			}
			return exec(f, `UPDATE dense_vectors SET embedding = `+embedding+` WHERE memory_id = ?`, bad.ID[:])
		}
		dimensions := embed.NewHashed().Model().Dimensions
		embeddings := []string{"x'00000000'", fmt.Sprintf("zeroblob(%d)", 2*dimensions), "x'" + strings.Repeat("007c", dimensions) + "'"}
		if f.Engine == schema.Postgres {
			embeddings = []string{"'[1,2,3]'", fmt.Sprintf("array_fill(0, ARRAY[%d])::halfvec", dimensions)}
		}
		for _, embedding := range embeddings {
			if err := spoil(embedding); err != nil {
				t.Fatal(err)
			}
			c.expect(t, search(t, s, "cello", nil), "sound")                                 // read as a change
			c.expect(t, search(t, mustOpen(t, f, embed.NewHashed()), "cello", nil), "sound") // read with all
		}
		if err := s.Index(t.Context(), []record.Record{bad}); err != nil {
			t.Fatal(err)
		}
		c.expect(t, search(t, s, "a cello concert", nil), "bad", "sound")
	})
}
