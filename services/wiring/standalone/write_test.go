package standalone_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// writer stores a memory in one of the ways there are, returns its id and says whether it was new.
type writer func(m *triskelev1.Memory) (id string, stored bool, err error)

// writers are the ways to store a memory through the gateway.
func writers(t *testing.T, memory triskelev1.MemoryServiceClient) map[string]writer {
	superseded := remember(t, memory, "out of date").GetMemory().GetId()
	return map[string]writer{
		"Remember": func(m *triskelev1.Memory) (string, bool, error) {
			resp, err := memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: m})
			return resp.GetMemory().GetId(), resp.GetStored(), err
		},
		"Import": func(m *triskelev1.Memory) (string, bool, error) {
			stream, err := memory.Import(t.Context())
			if err != nil {
				return "", false, err
			}
			if err := stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{m}, ReturnIds: true}); err != nil {
				return "", false, err
			}
			resp, err := stream.CloseAndRecv()
			if err != nil {
				return "", false, err
			}
			return resp.GetIds()[0], resp.GetStored() == 1, nil
		},
		"Supersede": func(m *triskelev1.Memory) (string, bool, error) {
			resp, err := memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: superseded, Replacement: m})
			return resp.GetMemory().GetId(), resp.GetMemory().GetRevision() == 1, err
		},
	}
}

// TestRetriedWriteStoresOnce stores with an idempotency key, again, and with other contents under the same key, in each of
// the three ways.
func TestRetriedWriteStoresOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		_, memory := start(t, config, embed.NewHashed())
		for name, write := range writers(t, memory) {
			m := func(content string) *triskelev1.Memory {
				return &triskelev1.Memory{Namespace: "n", Content: content, IdempotencyKey: name}
			}
			first, stored, err := write(m("the door is blue"))
			if err != nil || !stored || uuid.MustParse(first).Version() != 7 {
				t.Errorf("%s: %s, %v, %v", name, first, stored, err)
			}
			again, stored, err := write(m("the door is blue"))
			if err != nil || again != first || stored && name != "Supersede" {
				t.Errorf("%s again: %s after %s, %v, %v", name, again, first, stored, err)
			}
			if _, _, err := write(m("the door is red")); status.Code(err) != codes.AlreadyExists {
				t.Errorf("%s of something else under the same key: %v", name, err)
			}
		}
		listed, err := memory.List(t.Context(), &triskelev1.ListRequest{Namespace: "n"})
		if err != nil || len(listed.GetMemories()) != 3 {
			t.Errorf("stored %v, %v", listed, err)
		}
	})
}

// TestImportKeepsWhatCameBefore sends batches that are in order until the gateway refuses one: those before it are stored.
func TestImportKeepsWhatCameBefore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		_, memory := start(t, config, embed.NewHashed())
		stream, err := memory.Import(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"first", "second", ""} {
			if err := stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{{Namespace: "n", Content: content}}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "message 3: memories[0].content: must be at least 1 bytes") {
			t.Errorf("got %v, want INVALID_ARGUMENT about the third", err)
		}
		listed, err := memory.List(t.Context(), &triskelev1.ListRequest{Namespace: "n"})
		if err != nil || len(listed.GetMemories()) != 2 {
			t.Errorf("got %v, %v, want the first two", listed, err)
		}
	})
}

// TestErrorsOfAnImportNameTheMessage: a caller sends many, each with memories of its own.
func TestErrorsOfAnImportNameTheMessage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		_, memory := start(t, config, embed.NewHashed())
		first := &triskelev1.Memory{Namespace: "n", Content: "first", IdempotencyKey: "a"}
		for want, second := range map[string]*triskelev1.Memory{
			"message 2: memories[0].content: must be at least 1 bytes": {Namespace: "n"},                                              // says the gateway
			"message 2: memories[0].supersedes: must be a UUID, not":   {Namespace: "n", Content: "x", Supersedes: uuid.Nil.String()}, // the memory service
			"message 2: memories[0]: its id or idempotency_key":        {Namespace: "n", Content: "other", IdempotencyKey: "a"},       // the database
		} {
			stream, err := memory.Import(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*triskelev1.Memory{first, second} {
				if err := stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{m}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := stream.CloseAndRecv(); !strings.HasPrefix(status.Convert(err).Message(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}

// TestStaleRevisionIsRefused lets two callers change what they have both read.
func TestStaleRevisionIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		_, memory := start(t, config, embed.NewHashed())
		read := remember(t, memory, "the door is green").GetMemory()
		update := &triskelev1.UpdateRequest{
			Namespace: "n", Id: read.GetId(), ExpectedRevision: read.GetRevision(), Memory: &triskelev1.Memory{Title: "Door"},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"title"}},
		}
		if _, err := memory.Update(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		if _, err := memory.Update(t.Context(), update); status.Code(err) != codes.Aborted {
			t.Errorf("update: %v", err)
		}
		for field, want := range map[string]string{"created_at": "that can be updated, not created_at: content", "quokka": "that can be updated: content"} {
			update.UpdateMask.Paths = []string{"title", field}
			if _, err := memory.Update(t.Context(), update); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", field, err, want)
			}
		}
		supersede := &triskelev1.SupersedeRequest{Id: read.GetId(), ExpectedRevision: read.GetRevision(), Replacement: &triskelev1.Memory{Namespace: "n", Content: "the door is blue"}}
		if _, err := memory.Supersede(t.Context(), supersede); status.Code(err) != codes.Aborted {
			t.Errorf("supersede: %v", err)
		}
		supersede.ExpectedRevision++
		if _, err := memory.Supersede(t.Context(), supersede); err != nil {
			t.Error(err)
		}
	})
}

// TestExpiredMemoryIsGoneAtOnce stores memories that have expired in each way: no leg finds them.
func TestExpiredMemoryIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, memory := start(t, config, embed.NewHashed())
		for name, write := range writers(t, memory) {
			m := &triskelev1.Memory{Namespace: "n", Content: "The Heron crane is serviced, says " + name + ".", ExpiresAt: timestamppb.New(time.Now().Add(-time.Second))}
			if _, _, err := write(m); name != "Import" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), ".expires_at: must be in the future")) {
				t.Errorf("%s of what has expired: got %v, want it refused", name, err)
			}
			m.IdempotencyKey = name // as in a repetition
			if _, _, err := write(m); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		last := remember(t, memory, "The Heron crane stands.")
		resp, legs := recall(t, recalls, "Heron crane", last.GetRevisionToken(), 10*time.Second)
		if len(resp.GetHits()) != 1 || resp.GetHits()[0].GetId() != last.GetMemory().GetId() || len(legs) != 3 {
			t.Errorf("%v", resp)
		}
	})
}

// TestRecallOfSuperseded asks with and without them: they come with their links.
func TestRecallOfSuperseded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, memory := start(t, config, embed.NewHashed())
		old := remember(t, memory, "The Heron crane is green.").GetMemory().GetId()
		resp, err := memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: old, Replacement: &triskelev1.Memory{Namespace: "n", Content: "The Heron crane is blue."}})
		if err != nil {
			t.Fatal(err)
		}
		now := resp.GetMemory().GetId()
		for _, superseded := range []bool{false, true} {
			resp, err := recalls.Recall(t.Context(), &triskelev1.RecallRequest{
				Namespaces: []string{"n"}, Query: "is the Heron crane green", AtLeast: []string{resp.GetRevisionToken()}, Explain: true,
				Filter: &triskelev1.Filter{IncludeSuperseded: superseded}, Budget: durationpb.New(10 * time.Second),
			})
			if err != nil {
				t.Fatal(err)
			}
			links := map[string][2]string{}
			for _, hit := range resp.GetHits() {
				links[hit.GetId()] = [2]string{hit.GetMemory().GetSupersedes(), hit.GetMemory().GetSupersededBy()}
			}
			if want := [2]string{old, ""}; links[now] != want {
				t.Errorf("the newer one: %v", resp)
			}
			if link, found := links[old]; found != superseded || found && link != [2]string{"", now} {
				t.Errorf("the older one, asked for %v: %v", superseded, resp)
			}
		}
	})
}
