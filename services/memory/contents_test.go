package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestContentsAfterAFailover: a standby that is promoted may lack the last changes. Those that follow make the namespace's count of
// changes the same again, but its memories others than those that were kept.
func TestContentsAfterAFailover(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	r := storetest.Record("n", "The crane is serviced in May.", nil)
	f.Insert(t, r)
	server := memory.NewServer(f.Memory)
	content := func() string {
		t.Helper()
		resp, err := server.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{r.ID.String()}})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetMemories()[0].GetContent()
	}
	before := content()
	if err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`SET LOCAL triskele.notes = 'own'`,
			`UPDATE memory.memories SET content = 'The crane is serviced in June.' WHERE namespace = 'n'`,
			`CREATE OR REPLACE FUNCTION memory.timeline() RETURNS bigint LANGUAGE sql AS $$ SELECT 2::bigint $$`,
		} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := content(), "The crane is serviced in June."; got != want || before == got {
		t.Errorf("got %q after %q, want %q", got, before, want)
	}
}

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

// withStandby returns a store whose connections to the primary are dialled in this way, and closes it at the end.
func withStandby(t *testing.T, primary, standby *storetest.Fixture, dial pgconn.DialFunc) (*memory.Store, *pgxpool.Pool) {
	t.Helper()
	config := primary.Pool.Config()
	config.ConnConfig.DialFunc, config.ConnConfig.TLSConfig = dial, nil // so that leaving reads the answers
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	reads, err := postgres.OpenStandby(t.Context(), standby.Pool.Config().ConnString(), pool, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reads.Close)
	return memory.NewStore(sqldb.Store{Pool: pool, Standby: reads}, noIndex{}), pool
}

// What a standby still has while the primary is away is not kept: the primary may have forgotten it.
func TestStandbysContentsAreNotKept(t *testing.T) {
	t.Parallel()
	primary, lagging := storetest.Postgres(t), storetest.Postgres(t)
	kept, forgotten := storetest.Record("n", "kept", nil), storetest.Record("n", "forgotten", nil)
	primary.Insert(t, kept)
	lagging.Insert(t, kept, forgotten)
	var away atomic.Bool
	store, pool := withStandby(t, primary, lagging, func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the primary is away")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
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

// leaving is a connection that ends after so many statements of a batch, once it is told to.
type leaving struct {
	net.Conn
	after *atomic.Int64 // statements that are answered yet; below 0 for all
}

// Read implements net.Conn.
func (l leaving) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	for at := 0; l.after.Load() >= 0; {
		tag := bytes.Index(p[at:n], []byte("SELECT ")) // of a statement's end
		if tag < 0 {
			break
		}
		if at += tag + bytes.IndexByte(p[at+tag:n], 0) + 1; l.after.Add(-1) < 0 {
			_ = l.Close() // so that the next Read fails
			return at, nil
		}
	}
	return n, err
}

// TestPrimaryLeavesAmidAnAnswer: what it has given is not given again by the standby.
func TestPrimaryLeavesAmidAnAnswer(t *testing.T) {
	t.Parallel()
	primary, standby := storetest.Postgres(t), storetest.Postgres(t)
	var turns []record.Record
	for i := range int64(5) {
		turns = append(turns, storetest.Record("n", fmt.Sprint("turn ", i), func(r *record.Record) { r.Thread, r.Position = "talk", &i }))
	}
	primary.Insert(t, turns...)
	standby.Insert(t, turns...)
	var after atomic.Int64
	after.Store(-1)
	store, _ := withStandby(t, primary, standby, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return leaving{conn, &after}, err
	})
	left := 0
	for statements := range int64(4) {
		after.Store(statements)
		found, err := store.Surroundings(t.Context(), "n", turns[2:3], 2, record.Filter{})
		if after.Swap(-1) < 0 {
			left++
		}
		var got []string
		if err == nil {
			for _, r := range slices.Concat(found[0].Before, found[0].After) {
				got = append(got, r.Content)
			}
		}
		if want := []string{"turn 0", "turn 1", "turn 3", "turn 4"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d statements: got %v, %v; want %v", statements, got, err, want)
		}
	}
	if left < 2 {
		t.Errorf("the primary has left %d times, want 2 at least", left)
	}
}
