package memory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// chain stores n memories, each of which supersedes the one before.
func chain(t *testing.T, f *storetest.Fixture, namespace string, n int) []uuid.UUID {
	t.Helper()
	first := storetest.Record(namespace, "the door is green", nil)
	f.Insert(t, first)
	ids := []uuid.UUID{first.ID}
	for range n - 1 {
		stored, old, err := f.Memory.Supersede(t.Context(), ids[len(ids)-1], 0, storetest.Record(namespace, "the door is blue", nil))
		if err != nil || old.SupersededBy != stored.ID {
			t.Fatalf("%+v, %+v, %v", stored, old, err)
		}
		ids = append(ids, stored.ID)
	}
	return ids
}

// TestChainOfSupersession forgets members of a chain of five: the others stay linked in their order, and none that was
// superseded is listed again.
func TestChainOfSupersession(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for name, x := range map[string]struct {
			forgotten [][]int // by one call each
			live      int     // -1 if none
		}{
			"nothing":                 {nil, 4},
			"the middle":              {[][]int{{2}}, 4},
			"two neighbours at once":  {[][]int{{1, 2}}, 4},
			"neighbours in any order": {[][]int{{3}, {1}, {2}}, 4},
			"the oldest":              {[][]int{{0}}, 4},
			"the newest":              {[][]int{{4}}, -1},
			"the newest two":          {[][]int{{4, 3}}, -1},
			"the newest, then a link": {[][]int{{4}, {2}}, -1},
		} {
			ids := chain(t, f, name, 5)
			left := slices.Clone(ids)
			for _, places := range x.forgotten {
				var doomed []uuid.UUID
				for _, i := range places {
					doomed = append(doomed, ids[i])
				}
				if _, err := f.Memory.Forget(t.Context(), name, doomed); err != nil {
					t.Fatal(err)
				}
				left = slices.DeleteFunc(left, func(id uuid.UUID) bool { return slices.Contains(doomed, id) })
			}
			found, err := f.Memory.Get(t.Context(), name, left)
			if err != nil || len(found) != len(left) {
				t.Fatalf("%s: %d left, %v", name, len(found), err)
			}
			for i, r := range found {
				var before uuid.UUID
				if i > 0 {
					before = left[i-1]
				}
				if r.Supersedes != before {
					t.Errorf("%s: number %d supersedes %s, want %s", name, i, r.Supersedes, before)
				}
				switch newest := i == len(left)-1; {
				case !newest && r.SupersededBy != left[i+1]:
					t.Errorf("%s: number %d is superseded by %s, want %s", name, i, r.SupersededBy, left[i+1])
				case newest && (r.SupersededBy == uuid.Nil) != (x.live >= 0):
					t.Errorf("%s: the newest is superseded by %s", name, r.SupersededBy)
				}
			}
			listed, err := f.Memory.List(t.Context(), name, record.Filter{}, memory.Cursor{}, 10)
			if err != nil || (len(listed) == 1) != (x.live >= 0) || len(listed) == 1 && listed[0].ID != ids[x.live] {
				t.Errorf("%s: listed %v, %v", name, listed, err)
			}
		}
	})
}

// TestExpiredSuccessorBringsNothingBack: what was superseded by a memory that has expired, and has been swept, stays
// out of date.
func TestExpiredSuccessorBringsNothingBack(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		old := storetest.Record("n", "the door is green", nil)
		f.Insert(t, old)
		if _, _, err := f.Memory.Supersede(t.Context(), old.ID, 0, storetest.Record("n", "the door is blue", func(r *record.Record) {
			r.ExpiresAt = record.Now().Add(-time.Hour)
		})); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"expired", "swept"} {
			if listed, err := f.Memory.List(t.Context(), "n", record.Filter{}, memory.Cursor{}, 10); err != nil || len(listed) != 0 {
				t.Errorf("%s: %v, %v", when, listed, err)
			}
			if _, err := f.Memory.Sweep(t.Context(), record.Now(), 10); err != nil {
				t.Fatal(err)
			}
		}
		listed, err := f.Memory.List(t.Context(), "n", record.Filter{IncludeSuperseded: true}, memory.Cursor{}, 10)
		if err != nil || len(listed) != 1 || listed[0].ID != old.ID {
			t.Errorf("with superseded ones: %v, %v", listed, err)
		}
	})
}
