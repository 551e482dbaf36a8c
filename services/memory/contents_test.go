package memory_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// reads counts reads of records.
type reads struct {
	memory.Store
	n int
}

func (r *reads) Get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error) {
	r.n++
	return r.Store.Get(ctx, namespace, ids)
}

// TestContentsAreKept: records are read again after any write to their namespace, and sensitive ones each time.
func TestContentsAreKept(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		store := &reads{Store: f.Memory}
		server := memory.NewServer(store)
		first := storetest.Record("n", "The crane is serviced.", func(r *record.Record) { r.Tags, r.Metadata = []string{"crane"}, map[string]any{"height": 80.} })
		second := storetest.Record("n", "The crane is painted.", nil)
		secret := storetest.Record("n", "The crane has a key.", func(r *record.Record) { r.Sensitive = true })
		f.Insert(t, first, second, secret)
		get := func(wantReads int, wantContents []string, of ...record.Record) []*triskelev1.Memory {
			t.Helper()
			req, before := &triskelev1.GetRequest{Namespace: "n"}, store.n
			for _, r := range of {
				req.Ids = append(req.Ids, r.ID.String())
			}
			resp, err := server.Get(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if got := store.n - before; got != wantReads {
				t.Errorf("got %d reads, want %d", got, wantReads)
			}
			if len(resp.GetMemories()) != len(wantContents) {
				t.Fatalf("got %v, want %v", resp.GetMemories(), wantContents)
			}
			for i, m := range resp.GetMemories() {
				if m.GetContent() != wantContents[i] {
					t.Errorf("got %q, want %q", m.GetContent(), wantContents[i])
				}
			}
			return resp.GetMemories()
		}
		get(1, []string{first.Content, second.Content}, first, second)
		changed := get(0, []string{second.Content, first.Content}, second, first)[1]
		changed.Tags[0], changed.Content = "changed by a caller", "changed by a caller"
		changed.Metadata.Fields["height"] = nil
		if again := get(0, []string{first.Content}, first)[0]; again.GetTags()[0] != "crane" || again.GetMetadata().GetFields()["height"].GetNumberValue() != 80 {
			t.Errorf("got %v, want the tag %q and the metadata of %v", again, "crane", first.Metadata)
		}
		get(1, []string{secret.Content}, secret)
		get(1, []string{secret.Content}, secret)

		if _, err := f.Memory.Update(t.Context(), "n", first.ID, 0, func(r *record.Record) error { r.Content = "The crane is broken."; return nil }); err != nil {
			t.Fatal(err)
		}
		get(1, []string{"The crane is broken.", second.Content}, first, second)
		if _, err := f.Memory.Update(t.Context(), "n", second.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
			t.Fatal(err)
		}
		get(1, []string{second.Content}, second)
		get(1, []string{second.Content}, second)
		get(1, []string{"The crane is broken."}, first)
		get(0, []string{"The crane is broken."}, first)
		if _, err := f.Memory.Forget(t.Context(), "n", []uuid.UUID{first.ID}); err != nil {
			t.Fatal(err)
		}
		get(1, nil, first)
		f.Insert(t, first)
		get(1, []string{first.Content}, first)
		if _, err := f.Memory.DeleteNamespace(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		get(1, nil, first)
	})
}
