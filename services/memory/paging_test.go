package memory_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// aged are n records of a namespace, an hour apart and the oldest first.
func aged(namespace string, n int) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = storetest.Record(namespace, fmt.Sprintf("memory %d", i), func(r *record.Record) {
			r.CreatedAt = time.Date(2025, 1, 1, i, 0, 0, 0, time.UTC)
		})
	}
	return records
}

// receiver is the server's side of an export whose messages go to a function.
type receiver struct {
	grpc.ServerStream
	ctx  context.Context
	take func(*triskelev1.ExportResponse) error
}

func (r receiver) Context() context.Context                      { return r.ctx }
func (r receiver) Send(message *triskelev1.ExportResponse) error { return r.take(message) }

// held is how many connections the store has in use.
func held(f *storetest.Fixture) int {
	if f.Engine == schema.Postgres {
		return int(f.Pool.Stat().AcquiredConns())
	}
	return f.DB.Read.Stats().InUse
}

// TestExportBesideWriters: what is there throughout is exported once, whatever is written meanwhile.
func TestExportBesideWriters(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		records := aged("n", 250)
		f.Insert(t, records...)
		seen := map[string]int{}
		first := true
		err := memory.NewServer(f.Memory).Export(&triskelev1.ExportRequest{Namespace: "n"}, receiver{ctx: t.Context(), take: func(message *triskelev1.ExportResponse) error {
			for _, m := range message.GetMemories() {
				seen[m.GetContent()]++
			}
			if !first {
				return nil
			}
			first = false
			if held := held(f); held > 0 {
				t.Errorf("%d connections are held while a message is on its way, want none", held)
			}
			_, err := f.Memory.Update(t.Context(), "n", records[249].ID, 0, func(r *record.Record) error { r.Content = "changed"; return nil })
			if err != nil {
				return err
			}
			older := storetest.Record("n", "older", func(r *record.Record) { r.CreatedAt = records[0].CreatedAt.Add(-time.Hour) })
			newer := storetest.Record("n", "newer", nil)
			_, err = f.Memory.Insert(t.Context(), []record.Record{older, newer})
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"changed": 1, "newer": 1}
		for i := range 249 {
			want[fmt.Sprintf("memory %d", i)] = 1
		}
		for content, n := range want {
			if seen[content] != n {
				t.Errorf("%q came %d times, want %d", content, seen[content], n)
			}
			delete(seen, content)
		}
		if len(seen) > 0 {
			t.Errorf("more came: %v", seen)
		}
	})
}

// TestExportOfWhatIsGone: an export of a namespace that gets another name, or is deleted and made again, does not end as if it
// were whole.
func TestExportOfWhatIsGone(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		for name, change := range map[string]func(namespace string) error{
			"renamed": func(namespace string) error {
				_, err := f.Memory.RenameNamespace(t.Context(), namespace, namespace+"-after")
				return err
			},
			"made-again": func(namespace string) error {
				_, err := f.Memory.DeleteNamespace(t.Context(), namespace)
				return errors.Join(err, func() error {
					_, err := f.Memory.Insert(t.Context(), []record.Record{storetest.Record(namespace, "anew", nil)})
					return err
				}())
			},
		} {
			f.Insert(t, aged(name, 150)...)
			first := true
			err := memory.NewServer(f.Memory).Export(&triskelev1.ExportRequest{Namespace: name}, receiver{ctx: t.Context(), take: func(*triskelev1.ExportResponse) error {
				if !first {
					return nil
				}
				first = false
				return change(name)
			}})
			if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "start the export again") {
				t.Errorf("%s: got %v, want ABORTED", name, err)
			}
		}
	})
}

// TestExportToSomebodyAsleep ends the export, and makes room for another one.
func TestExportToSomebodyAsleep(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, aged("acme/a", 1)...)
		server := memory.NewServer(f.Memory).Limit(time.Minute, time.Millisecond)
		asleep := receiver{ctx: t.Context(), take: func(*triskelev1.ExportResponse) error {
			<-t.Context().Done()
			return nil
		}}
		for i := range memory.MaxExportsOf + 1 {
			if err := server.Export(&triskelev1.ExportRequest{Namespace: "acme/a"}, asleep); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "read nothing for") {
				t.Fatalf("export %d: got %v, want DEADLINE_EXCEEDED", i, err)
			}
		}
	})
}

// TestExportsOfATenant: one tenant's exports leave room for another's, under whatever names its namespaces are.
func TestExportsOfATenant(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	f.Insert(t, aged("acme/a", 1)...)
	f.Insert(t, aged("birds", 1)...)
	server := memory.NewServer(f.Memory)
	export := func(namespace string, take func() error) error {
		return server.Export(&triskelev1.ExportRequest{Namespace: namespace}, receiver{ctx: t.Context(), take: func(*triskelev1.ExportResponse) error { return take() }})
	}
	var nested func(n int) error
	nested = func(n int) error {
		if n > 0 {
			return export("acme/a", func() error { return nested(n - 1) })
		}
		if err := export("birds", func() error { return nil }); err != nil {
			t.Errorf("another tenant's: %v", err)
		}
		if err := export("acme/b", func() error { return nil }); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one more: got %v, want RESOURCE_EXHAUSTED", err)
		}
		return io.EOF
	}
	if err := nested(memory.MaxExportsOf); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := export("acme/a", func() error { return nil }); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
}

// TestMessagesOfAnExportAreBounded: large memories come in small messages, and all of them come.
func TestMessagesOfAnExportAreBounded(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	records := aged("n", 30)
	for i := range records {
		records[i].Content = strings.Repeat("x", 60<<10)
	}
	f.Insert(t, records...)
	stream, err := f.Client(t).Export(t.Context(), &triskelev1.ExportRequest{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(message.GetMemories())
		if size := proto.Size(message); size > 256<<10+100 {
			t.Errorf("a message has %d bytes, want at most 256 KiB", size)
		}
	}
	if got != len(records) {
		t.Errorf("got %d memories, want %d", got, len(records))
	}
}

// TestPagesAreBounded: large memories come in more pages than asked for, and all of them come.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		records := aged("n", 300)
		for i := range records {
			records[i].Content = strings.Repeat("x", 60<<10)
		}
		f.Insert(t, records...)
		slices.Reverse(records)
		client, size := f.Client(t), int32(1000)
		request := &triskelev1.ListRequest{Namespace: "n", PageSize: &size}
		var got []string
		for {
			page, err := client.List(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if size := proto.Size(page); size > 4<<20 || len(page.GetMemories()) == 0 {
				t.Fatalf("a page has %d memories and %d bytes, want at most 4 MiB", len(page.GetMemories()), size)
			}
			for _, m := range page.GetMemories() {
				got = append(got, m.GetId())
			}
			if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
				break
			}
		}
		var want []string
		for _, r := range records {
			want = append(want, r.ID.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %d memories %v, want %d %v", len(got), got, len(want), want)
		}

		_, err := client.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: want})
		if text := status.Convert(err).Message(); status.Code(err) != codes.InvalidArgument || !strings.Contains(text, "ids: must") || !strings.Contains(text, "16 MiB") {
			t.Errorf("get of %d memories: got %v, want INVALID_ARGUMENT that names the bound", len(want), err)
		}
		some, err := client.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: want[:200]})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range some.GetMemories() {
			if m.GetId() != want[i] {
				t.Fatalf("get: memory %d is %s, want %s", i, m.GetId(), want[i])
			}
		}
		if got := len(some.GetMemories()); got != 200 {
			t.Errorf("get of 200 memories: got %d", got)
		}
	})
}

// Tokens that no page has given are refused before a database sees them.
func TestForeignPageTokens(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		f.Insert(t, storetest.Record("n", "x", nil))
		server := memory.NewServer(f.Memory)
		for _, name := range []string{"\x00", "\xff\xfe"} {
			token := base64.RawURLEncoding.EncodeToString([]byte(name))
			if _, err := server.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{PageToken: token}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("namespaces after %q: got %v, want INVALID_ARGUMENT", name, err)
			}
		}
		now, firstYear := time.Now().UnixMicro(), time.Time{}.UnixMicro()
		for id, at := range map[[16]byte]uint64{{1}: 1 << 63, {2}: 1<<63 - 1, {}: uint64(now), {3}: uint64(firstYear)} {
			token := base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, at), id[:]...))
			if _, err := server.List(t.Context(), &triskelev1.ListRequest{Namespace: "n", PageToken: token}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("memories after the time %d: got %v, want INVALID_ARGUMENT", at, err)
			}
		}
	})
}

// Each call says that the database is away, so that its caller tries again.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	tel := storetest.Telemetry(t)
	pool, err := postgres.Open(t.Context(), "postgres://nobody@127.0.0.1:1/nothing", tel)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	server := memory.NewServer(memory.NewStore(sqldb.Store{Pool: pool}, noIndex{}))
	m := &triskelev1.Memory{Namespace: "n", Content: "x"}
	for name, call := range map[string]func() error{
		"Get": func() error {
			_, err := server.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{uuid.NewString()}})
			return err
		},
		"Remember": func() error {
			_, err := server.Remember(t.Context(), &triskelev1.RememberRequest{Memory: m})
			return err
		},
		"List": func() error { _, err := server.List(t.Context(), &triskelev1.ListRequest{Namespace: "n"}); return err },
		"GetNamespace": func() error {
			_, err := server.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "n"})
			return err
		},
		"ListNamespaces": func() error {
			_, err := server.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{})
			return err
		},
		"ListDecisions": func() error {
			_, err := server.ListDecisions(t.Context(), &triskelev1.ListDecisionsRequest{Namespace: "n"})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v, want UNAVAILABLE", name, err)
		}
	}
}
