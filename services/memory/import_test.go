package memory_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/revision"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestPlanStoresNothing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		held := full("n")
		f.Insert(t, held)
		fresh := storetest.Record("unheard", "new", nil)
		given := []record.Record{held, fresh, fresh}
		planned, err := f.Memory.Plan(t.Context(), given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Memory.Namespace(t.Context(), "unheard"); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("planning made a namespace: %v", err)
		}
		if found, err := f.Memory.Get(t.Context(), "unheard", []uuid.UUID{fresh.ID}); err != nil || len(found) != 0 {
			t.Errorf("planning stored %v, %v", found, err)
		}
		inserted, err := f.Memory.Insert(t.Context(), given)
		if err != nil {
			t.Fatal(err)
		}
		for i := range inserted {
			inserted[i].Record.Sequence, planned[i].Record.Sequence = 0, 0
		}
		if !reflect.DeepEqual(planned, inserted) {
			t.Errorf("planned %+v\nstored  %+v", planned, inserted)
		}
		differs := held
		differs.Content = "other"
		var conflict *memory.ConflictError
		if _, err := f.Memory.Plan(t.Context(), []record.Record{fresh, differs}); !errors.As(err, &conflict) || conflict.Index != 1 || conflict.ID != held.ID {
			t.Errorf("conflict: %v", err)
		}
	})
}

// A record that is imported after its replacement must not be taken for the newest one.
func TestInsertAfterItsReplacement(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		old, other := storetest.Record("n", "old", nil), storetest.Record("n", "other", nil)
		newer := storetest.Record("n", "new", func(r *record.Record) { r.Supersedes = old.ID })
		newest := storetest.Record("n", "newest", func(r *record.Record) { r.Supersedes = old.ID })
		f.Insert(t, newest)
		f.Insert(t, newer)
		inserted, err := f.Memory.Insert(t.Context(), []record.Record{old, other})
		if err != nil {
			t.Fatal(err)
		}
		if got := inserted[0].Record; got.SupersededBy != newer.ID || got.Revision != 1 {
			t.Errorf("stored as %+v", got)
		}
		if got := get(t, f, "n", old.ID); got.SupersededBy != newer.ID || got.Revision != 1 {
			t.Errorf("old record: %+v", got)
		}
		if got := get(t, f, "n", other.ID); got.SupersededBy != uuid.Nil {
			t.Errorf("the other record: %+v", got)
		}
	})
}

// A record that closes a circle with stored ones does not hide the last of them.
func TestInsertClosesACircle(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		closing := storetest.Record("n", "closing", nil)
		next := storetest.Record("n", "next", func(r *record.Record) { r.Supersedes = closing.ID })
		last := storetest.Record("n", "last", func(r *record.Record) { r.Supersedes = next.ID })
		closing.Supersedes = last.ID
		f.Insert(t, next)
		f.Insert(t, last)
		f.Insert(t, closing)
		for r, want := range map[*record.Record]uuid.UUID{&closing: next.ID, &next: last.ID, &last: uuid.Nil} {
			if got := get(t, f, "n", r.ID); got.SupersededBy != want {
				t.Errorf("%s: superseded by %s, want %s", r.Content, got.SupersededBy, want)
			}
		}
	})
}

func importAll(t *testing.T, c triskelev1.MemoryServiceClient, requests ...*triskelev1.ImportRequest) (*triskelev1.ImportResponse, error) {
	t.Helper()
	stream, err := c.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range requests {
		if stream.Send(req) != nil {
			break // the server's answer says why
		}
	}
	return stream.CloseAndRecv()
}

func TestImport(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		request := func(edit func(*triskelev1.ImportRequest), memories ...*triskelev1.Memory) *triskelev1.ImportRequest {
			req := &triskelev1.ImportRequest{Memories: memories}
			edit(req)
			return req
		}
		id := uuid.NewString()
		first := []*triskelev1.Memory{{Namespace: "n", Content: "a", IdempotencyKey: "a"}, {Namespace: "n", Content: "b", Id: id}}
		second := []*triskelev1.Memory{{Namespace: "m", Content: "c", IdempotencyKey: "c"}, {Namespace: "n", Content: "d", IdempotencyKey: "d"}}
		plain := func(*triskelev1.ImportRequest) {}

		dry := func(req *triskelev1.ImportRequest) { req.DryRun = true }
		got, err := importAll(t, c, request(dry, first...), request(plain, second...))
		if err != nil || got.GetStored() != 4 || got.GetUnchanged() != 0 || got.GetRevisionToken() != "" || len(got.GetIds()) != 0 {
			t.Errorf("dry run: %v, %v", got, err)
		}
		if _, err := f.Memory.Namespace(t.Context(), "n"); !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("the dry run stored something: %v", err)
		}

		ids := func(req *triskelev1.ImportRequest) { req.ReturnIds = true }
		stored, err := importAll(t, c, request(ids, first...), request(plain, second...))
		if err != nil || stored.GetStored() != 4 || len(stored.GetIds()) != 4 || stored.GetIds()[1] != id {
			t.Fatalf("import: %v, %v", stored, err)
		}
		last := get(t, f, "n", uuid.MustParse(stored.GetIds()[3]))
		if want := (revision.Token{Namespace: "n", Sequence: last.Sequence}).String(); stored.GetRevisionToken() != want || last.Content != "d" {
			t.Errorf("token %q, want %q", stored.GetRevisionToken(), want)
		}

		again, err := importAll(t, c, request(ids, first...), request(plain, second...))
		if err != nil || again.GetStored() != 0 || again.GetUnchanged() != 4 || again.GetRevisionToken() != "" || !slices.Equal(again.GetIds(), stored.GetIds()) {
			t.Errorf("retried: %v, %v; first %v", again, err, stored)
		}

		differs := &triskelev1.Memory{Namespace: "n", Content: "other", IdempotencyKey: "a"}
		for name, edit := range map[string]func(*triskelev1.ImportRequest){"dry run": dry, "import": plain} {
			_, err := importAll(t, c, request(edit, second[0], differs))
			if status.Code(err) != codes.AlreadyExists || status.Convert(err).Message() != fmt.Sprintf("memories[1]: its id or idempotency_key belongs to memory %s, whose contents differ", stored.GetIds()[0]) {
				t.Errorf("%s of a conflict: %v", name, err)
			}
		}
	})
}

// TestImportRefuses what could never be found or would be taken for unset.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		a, b, d, nobody := uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.Nil.String()
		memory := func(id, supersedes, by string) *triskelev1.Memory {
			return &triskelev1.Memory{Namespace: "n", Content: "walnut", Id: id, Supersedes: supersedes, SupersededBy: by}
		}
		for name, x := range map[string]struct {
			memories []*triskelev1.Memory
			want     string
		}{
			"itself":           {[]*triskelev1.Memory{memory(a, a, "")}, "memories[0].supersedes"},
			"by itself":        {[]*triskelev1.Memory{memory(a, "", a)}, "memories[0].supersedes"},
			"each other":       {[]*triskelev1.Memory{memory(a, b, ""), memory(b, a, "")}, ".supersedes"},
			"in a circle":      {[]*triskelev1.Memory{memory(a, b, ""), memory(b, d, ""), memory(a, "", d)}, ".supersedes"},
			"the nil id":       {[]*triskelev1.Memory{memory(a, "", ""), memory(nobody, "", "")}, "memories[1].id"},
			"of the nil id":    {[]*triskelev1.Memory{memory(a, nobody, "")}, "memories[0].supersedes"},
			"by the nil id":    {[]*triskelev1.Memory{memory(a, "", nobody)}, "memories[0].superseded_by"},
			"in the year zero": {[]*triskelev1.Memory{{Namespace: "n", Content: "x", OccurredAt: timestamppb.New(time.Time{}.Add(time.Nanosecond))}}, "memories[0].occurred_at"},
		} {
			_, err := importAll(t, c, &triskelev1.ImportRequest{Memories: x.memories})
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), x.want) {
				t.Errorf("%s: got %v, want INVALID_ARGUMENT with %q", name, err, x.want)
			}
		}
		got, err := importAll(t, c, &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{memory(a, "", b), memory(b, a, d), memory(d, b, "")}})
		if err != nil || got.GetStored() != 3 {
			t.Fatalf("a line of successors: %v, %v", got, err)
		}
		for range 2 { // the second is answered from memory
			if _, err := c.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{d}}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{nobody}}); len(got.GetMemories()) > 0 {
			t.Errorf("the memory with the nil id: %v, %v", got, err)
		}
		for name, filter := range map[string]*triskelev1.Filter{"created_before": {CreatedBefore: timestamppb.New(time.Time{})}, "occurred_from": {OccurredFrom: timestamppb.New(time.Time{})}} {
			if got, err := c.List(t.Context(), &triskelev1.ListRequest{Namespace: "n", Filter: filter}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "filter."+name) {
				t.Errorf("%s the year zero: %d memories, %v", name, len(got.GetMemories()), err)
			}
		}
	})
}

// TestThreads has the server refuse threads and positions that mean nothing, and change those of a memory.
func TestThreads(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c, at := f.Client(t), func(n int64) *int64 { return &n }
		for want, memories := range map[string][]*triskelev1.Memory{
			"memories[0].position: must not be set without a thread": {{Namespace: "n", Content: "a", Position: at(1)}},
			"memories[0].position": {{Namespace: "n", Content: "a", Thread: "talk", Position: at(-1)}},
			"memories[0].thread":   {{Namespace: "n", Content: "a", Thread: strings.Repeat("x", 513)}},
		} {
			if _, err := importAll(t, c, &triskelev1.ImportRequest{Memories: memories}); status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), want) {
				t.Errorf("got %v, want INVALID_ARGUMENT with %q", err, want)
			}
		}
		if _, err := importAll(t, c, &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{
			{Namespace: "n", Content: "a", Thread: "talk", Position: at(5)}, {Namespace: "n", Content: "b", Thread: "talk", Position: at(5)}, {Namespace: "n", Content: "c", Thread: "talk", Position: at(1)},
		}}); err != nil {
			t.Errorf("positions that clash and go back: %v", err)
		}
		here, there := uuid.NewString(), uuid.NewString()
		if _, err := importAll(t, c, &triskelev1.ImportRequest{Memories: []*triskelev1.Memory{
			{Id: here, Namespace: "here", Content: "a", Thread: "README.md"}, {Id: there, Namespace: "there", Content: "b", Thread: "README.md"},
		}}); err != nil {
			t.Errorf("threads of two namespaces with one name: %v", err)
		}
		for namespace, id := range map[string]string{"here": here, "there": there} {
			got, err := c.Get(t.Context(), &triskelev1.GetRequest{Namespace: namespace, Ids: []string{id}, Surroundings: 2})
			if around := got.GetSurroundings(); err != nil || len(around) != 1 || len(around[0].GetBefore())+len(around[0].GetAfter()) != 0 {
				t.Errorf("the thread in %s: got %v, %v, want one memory without neighbours", namespace, got, err)
			}
		}
		var arrived []*triskelev1.Memory
		for i := range 300 {
			arrived = append(arrived, &triskelev1.Memory{Id: uuid.NewString(), Namespace: "n", Content: fmt.Sprint(i), Thread: "log"})
		}
		if _, err := importAll(t, c, &triskelev1.ImportRequest{Memories: arrived}); err != nil {
			t.Fatal(err)
		}
		first := get(t, f, "n", uuid.MustParse(arrived[150].GetId()))
		around, err := f.Memory.Surroundings(t.Context(), "n", []record.Record{first}, 2, record.Filter{})
		if err != nil || len(around[0].Before) != 2 || len(around[0].After) != 2 ||
			around[0].Before[0].Content+around[0].Before[1].Content+around[0].After[0].Content+around[0].After[1].Content != "148149151152" {
			t.Errorf("without positions: got %+v, %v, want the order of arrival", around, err)
		}
		stored, err := c.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: "d", Thread: "talk", Position: at(7)}})
		if err != nil {
			t.Fatal(err)
		}
		change := func(m *triskelev1.Memory, paths ...string) (*triskelev1.Memory, error) {
			resp, err := c.Update(t.Context(), &triskelev1.UpdateRequest{Namespace: "n", Id: stored.GetMemory().GetId(), Memory: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
			return resp.GetMemory(), err
		}
		if m, err := change(&triskelev1.Memory{Position: at(8)}, "position"); err != nil || m.GetPosition() != 8 || m.GetThread() != "talk" {
			t.Errorf("moved: got %v, %v", m, err)
		}
		if m, err := change(&triskelev1.Memory{}, "thread"); err != nil || m.GetThread() != "" || m.Position != nil {
			t.Errorf("taken out: got %v, %v", m, err)
		}
		if m, err := change(&triskelev1.Memory{Position: at(1)}, "position"); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "memory.position: must not be set without a thread") {
			t.Errorf("a position without a thread: got %v, %v", m, err)
		}
	})
}

// TestTooManyIDs asks for more ids than the server returns, whatever its store.
func TestTooManyIDs(t *testing.T) {
	t.Parallel()
	many := make([]*triskelev1.ImportRequest, 51)
	for i := range many {
		many[i] = &triskelev1.ImportRequest{DryRun: true, ReturnIds: true}
		for j := range 1000 {
			many[i].Memories = append(many[i].Memories, &triskelev1.Memory{Namespace: "n", Content: fmt.Sprint(i, " ", j)})
		}
	}
	_, err := importAll(t, storetest.SQLite(t).Client(t), many...)
	const want = "return_ids: must not be set on a stream of more than 50000 memories"
	if got := status.Convert(err); got.Code() != codes.InvalidArgument || got.Message() != want {
		t.Errorf("got %v, want INVALID_ARGUMENT, %s", err, want)
	}
}

// TestLastRevision: no memory is imported with a number that is too large, and one that has the last number can be replaced.
func TestLastRevision(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		client := f.Client(t)
		stream, err := client.Import(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "n", Content: "x", Revision: math.MaxInt64}}})
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "memories[0].revision: must be at most 9007199254740992") {
			t.Errorf("import: got %v, want INVALID_ARGUMENT", err)
		}
		old := storetest.Record("n", "x", func(r *record.Record) { r.Revision = record.MaxRevision })
		f.Insert(t, old)
		resp, err := client.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: old.ID.String(), ExpectedRevision: record.MaxRevision, Replacement: &triskelev1.Memory{Namespace: "n", Content: "y"}})
		if err != nil || resp.GetSuperseded().GetRevision() != 1 {
			t.Errorf("supersede: got revision %d, error %v; want 1", resp.GetSuperseded().GetRevision(), err)
		}
	})
}
