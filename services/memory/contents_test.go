package memory_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestContentsAreKept: records are read again after any write to their namespace, and sensitive ones each time.
func TestContentsAreKept(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		reads := 0
		server := memory.NewServer(f.Memory).CountReads(&reads)
		first := storetest.Record("n", "The crane is serviced.", func(r *record.Record) { r.Tags, r.Metadata = []string{"crane"}, map[string]any{"height": 80.} })
		second := storetest.Record("n", "The crane is painted.", nil)
		secret := storetest.Record("n", "The crane has a key.", func(r *record.Record) { r.Sensitive = true })
		f.Insert(t, first, second, secret)
		get := func(wantReads int, wantContents []string, of ...record.Record) []*triskelev1.Memory {
			t.Helper()
			req, before := &triskelev1.GetRequest{Namespace: "n"}, reads
			for _, r := range of {
				req.Ids = append(req.Ids, r.ID.String())
			}
			resp, err := server.Get(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if got := reads - before; got != wantReads {
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

// What a standby still has while the primary is away is not kept: the primary may have forgotten it.
func TestStandbysContentsAreNotKept(t *testing.T) {
	t.Parallel()
	primary, lagging := storetest.Postgres(t), storetest.Postgres(t)
	kept, forgotten := storetest.Record("n", "kept", nil), storetest.Record("n", "forgotten", nil)
	primary.Insert(t, kept)
	lagging.Insert(t, kept, forgotten)
	config := primary.Pool.Config()
	var away atomic.Bool
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the primary is away")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := memory.NewStore(sqldb.Store{Pool: pool}, noIndex{})
	if store.Standby, err = postgres.OpenStandby(t.Context(), lagging.Pool.Config().ConnString(), pool, storetest.Telemetry(t)); err != nil {
		t.Fatal(err)
	}
	defer store.Standby.Close()
	server := memory.NewServer(store)
	get := func(r record.Record) int {
		resp, err := server.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{r.ID.String()}})
		if err != nil {
			t.Fatal(err)
		}
		return len(resp.GetMemories())
	}
	get(kept) // from now on the namespace's revision is known
	away.Store(true)
	pool.Reset()
	if got := get(forgotten); got != 1 {
		t.Fatalf("got %d memories of the standby, want 1", got)
	}
	away.Store(false)
	if got := get(forgotten); got != 0 {
		t.Errorf("got %d memories that the primary has forgotten, want none", got)
	}
}
