package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestUndecodableMemoryIsSetAside claims a batch with two memories that cannot be decoded: they are given up on, for all
// to see, and the others are indexed.
func TestUndecodableMemoryIsSetAside(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		var records []record.Record
		for range 5 {
			records = append(records, storetest.Record("n", "private words", nil))
		}
		f.Insert(t, records...)
		bad := map[uuid.UUID]bool{records[1].ID: true, records[3].ID: true}
		for id := range bad {
			f.Corrupt(t, id, `links = '[{"target": "private"}]'`)
		}
		failed, claimed := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
		eventually(t, "the others are claimed", func() bool {
			tasks, err := f.Queue.Claim(t.Context(), index, 10, 10*time.Millisecond)
			var undecodable *record.UndecodableError
			if errors.As(err, &undecodable) {
				failed[undecodable.ID] = true
			} else if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				claimed[task.Record.ID] = true
			}
			return len(claimed) > 0
		})
		if len(claimed) != 3 || claimed[records[1].ID] || claimed[records[3].ID] || len(failed) != 2 || !failed[records[1].ID] || !failed[records[3].ID] {
			t.Errorf("claimed %v, failed %v", claimed, failed)
		}
		entries, err := f.Queue.List(t.Context(), queue.Selection{Index: index, Dead: true}, 10)
		if err != nil || len(entries) != 2 {
			t.Fatalf("%v, %v", entries, err)
		}
		for _, e := range entries {
			if !bad[e.ID] || e.Attempts != 1 || e.LastError != "the stored memory cannot be decoded: column links" {
				t.Errorf("%+v", e)
			}
		}
		if s := status(t, f, "n"); s.Pending != 3 || s.Dead != 2 {
			t.Errorf("%+v", s)
		}
	})
}
