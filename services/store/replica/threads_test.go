package replica_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// follows is the order of memories in a thread.
func follows(a, b replica.Memory) int {
	return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Created, b.Created), bytes.Compare(a.ID[:], b.ID[:]))
}

// checkThreads compares the neighbours of all rows with the memories.
func checkThreads(t *testing.T, rows *replica.Rows, memories map[uuid.UUID]replica.Memory) {
	t.Helper()
	threads := map[string][]replica.Memory{}
	for _, m := range memories {
		if m.Thread != "" && m.To == 0 {
			threads[m.Thread] = append(threads[m.Thread], m)
		} else if row, _ := rows.Row(m.ID); m.Thread == "" || m.To != 0 {
			_, before := rows.Before(row)
			if _, after := rows.After(row); before || after {
				t.Fatalf("memory %v of no thread, or superseded, has neighbours", m.ID)
			}
		}
	}
	if got, want := rows.Threaded(), len(threads) > 0; got != want {
		t.Fatalf("threaded: got %v, want %v", got, want)
	}
	with := 0
	for name, list := range threads {
		if len(list) > 1 {
			with += len(list)
		}
		slices.SortFunc(list, follows)
		for i, m := range list {
			row, _ := rows.Row(m.ID)
			before, hasBefore := rows.Before(row)
			after, hasAfter := rows.After(row)
			if rows.HasNeighbours(row) != (len(list) > 1) {
				t.Fatalf("thread %s of %d: memory %d has neighbours: %v", name, len(list), i, len(list) == 1)
			}
			if hasBefore != (i > 0) || hasBefore && rows.IDs[before] != list[i-1].ID || hasAfter != (i < len(list)-1) || hasAfter && rows.IDs[after] != list[i+1].ID {
				t.Fatalf("thread %s: memory %d of %d has wrong neighbours", name, i, len(list))
			}
		}
	}
	if got := rows.WithNeighbours(); got != with {
		t.Fatalf("got %d memories with neighbours, want %d", got, with)
	}
}

// TestThreadsKeepTheirOrder puts, moves, supersedes and drops memories at random. Positions clash, go back and are missing.
func TestThreadsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	rows, memories := replica.NewRows(), map[uuid.UUID]replica.Memory{}
	var ids []uuid.UUID
	for step := range 3000 {
		fill := func(m replica.Memory) {
			m.Created, m.To = int64(random.IntN(20)), 0
			if m.Thread = fmt.Sprintf("thread %d", random.IntN(5)); random.IntN(6) == 0 {
				m.Thread = ""
			}
			if m.Position = int64(random.IntN(30)); random.IntN(4) == 0 {
				m.Position = replica.NoPosition
			}
			if random.IntN(6) == 0 {
				m.To = 1
			}
			rows.Put(m)
			memories[m.ID] = m
		}
		switch action := random.IntN(10); {
		case action < 5 || len(ids) == 0:
			id := uuid.New()
			ids = append(ids, id)
			fill(replica.Memory{ID: id})
		case action < 7:
			fill(memories[ids[random.IntN(len(ids))]])
		default:
			at := random.IntN(len(ids))
			row, _ := rows.Row(ids[at])
			rows.Drop(row)
			delete(memories, ids[at])
			ids = slices.Delete(ids, at, at+1)
		}
		if step%20 == 0 {
			checkThreads(t, rows, memories)
		}
	}
	for _, id := range ids {
		row, _ := rows.Row(id)
		rows.Drop(row)
	}
	checkThreads(t, rows, nil)
}

// TestLongThreads drops the memories of a long thread from its beginning, which must not take time that grows with its square.
func TestLongThreads(t *testing.T) {
	t.Parallel()
	rows, n := replica.NewRows(), 200_000
	for i := range n {
		rows.Put(replica.Memory{ID: uuid.UUID{byte(i >> 16), byte(i >> 8), byte(i)}, Thread: "log", Position: int64(n - i)})
	}
	last := uint32(n - 1)
	for i := range n - 1 {
		if before, there := rows.Before(last - uint32(i)); there {
			t.Fatalf("memory %d is the first that is left, and follows %d", i, before)
		}
		rows.Drop(last - uint32(i))
	}
	if _, there := rows.After(0); there {
		t.Error("the last memory has a neighbour")
	}
}

// TestImagesKnowThreads compares the neighbours in an image with the database, after writes of all kinds.
func TestImagesKnowThreads(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		set := images(t, f, strict())
		var turns []record.Record
		for i := range 6 {
			turns = append(turns, storetest.Record("n", fmt.Sprint("turn ", i), func(r *record.Record) {
				r.Title, r.Thread = fmt.Sprint(i), "talk"
				if i > 0 { // the first has no position, so it is the last
					r.Position = new(int64)
					*r.Position = int64(10 * i)
				}
			}))
		}
		f.Insert(t, turns[0], turns[3], turns[5])
		if got := talk(t, set); got != "3 5 0" {
			t.Errorf("loaded: got %q, want 3 5 0", got)
		}
		f.Insert(t, turns[4], turns[1], turns[2])
		if got := talk(t, set); got != "1 2 3 4 5 0" {
			t.Errorf("after inserts: got %q", got)
		}
		if _, _, err := f.Memory.Supersede(t.Context(), turns[3].ID, 0, storetest.Record("n", "better", func(r *record.Record) { r.Title = "better" })); err != nil {
			t.Fatal(err)
		}
		if got := talk(t, set); got != "1 2 better 4 5 0" {
			t.Errorf("a replacement has to take the place of what it supersedes: got %q", got)
		}
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{turns[2].ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.Update(t.Context(), "n", turns[1].ID, 0, func(r *record.Record) error {
			*r.Position = 45
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := talk(t, set); got != "better 4 1 5 0" {
			t.Errorf("after a forgotten and a moved one: got %q", got)
		}
	})
}

// talk returns the titles of the only thread of namespace n in its order.
func talk(t *testing.T, set *replica.Set) string {
	t.Helper()
	view, err := set.View(t.Context(), "n", replica.Need{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var titlesInOrder []string
	for row := range uint32(view.Len()) {
		_, before := view.Before(row)
		if _, after := view.After(row); before || !after {
			continue
		}
		for there := true; there; row, there = view.After(row) {
			titlesInOrder = append(titlesInOrder, view.Part.(*titles).of[row])
		}
	}
	return strings.Join(titlesInOrder, " ")
}
