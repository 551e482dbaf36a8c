// Package clienttest is a gateway for the tests of programs that use package client. It speaks real gRPC over a connection
// in memory, and keeps memories in a slice. It ranks by the number of words in common, has one leg and checks little. So it
// does not show what a real gateway finds or refuses.
package clienttest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// New starts a gateway that holds memories, and returns a client for it. The gateway stops at the end of the test.
func New(t testing.TB, memories ...*triskelev1.Memory) *client.Client {
	t.Helper()
	c, stop := Start(memories...)
	t.Cleanup(stop)
	return c
}

// Start is New without a test, for examples. It panics if a memory cannot be stored.
func Start(memories ...*triskelev1.Memory) (c *client.Client, stop func()) {
	fake := NewFake()
	for _, m := range memories {
		if _, err := fake.Remember(context.Background(), &triskelev1.RememberRequest{Memory: m}); err != nil {
			panic(err)
		}
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	triskelev1.RegisterRecallServiceServer(server, fake)
	triskelev1.RegisterMemoryServiceServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	c, err := client.Dial("passthrough:///fake", client.WithDialOptions(
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	))
	if err != nil {
		panic(err) // impossible: the target is a constant
	}
	return c, func() {
		_ = c.Close()
		server.Stop()
	}
}

// Fake implements both services. Embed it and override methods to make calls fail or answer as a test needs. Methods that it
// lacks return UNIMPLEMENTED.
type Fake struct {
	triskelev1.UnimplementedRecallServiceServer
	triskelev1.UnimplementedMemoryServiceServer
	mu       sync.Mutex
	memories []*triskelev1.Memory // in the order stored
}

// NewFake returns a fake without memories.
func NewFake() *Fake { return &Fake{} }

// Remember stores a memory. A second memory with the same idempotency key is not stored.
func (f *Fake) Remember(_ context.Context, req *triskelev1.RememberRequest) (*triskelev1.RememberResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := proto.CloneOf(req.GetMemory())
	if m.GetContent() == "" || m.GetNamespace() == "" {
		return nil, status.Error(codes.InvalidArgument, "memory: namespace and content are required")
	}
	if key := m.GetIdempotencyKey(); key != "" {
		for _, old := range f.memories {
			if old.GetNamespace() == m.GetNamespace() && old.GetIdempotencyKey() == key {
				return &triskelev1.RememberResponse{Memory: proto.CloneOf(old)}, nil
			}
		}
	}
	return &triskelev1.RememberResponse{Memory: proto.CloneOf(f.add(m)), Stored: true}, nil
}

func (f *Fake) add(m *triskelev1.Memory) *triskelev1.Memory {
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	m.Id = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	m.CreatedAt, m.Revision = timestamppb.Now(), 1
	if m.Importance == nil {
		m.Importance = new(0.5)
	}
	f.memories = append(f.memories, m)
	return m
}

// Supersede stores a replacement. Recall then leaves the old memory out.
func (f *Fake) Supersede(_ context.Context, req *triskelev1.SupersedeRequest) (*triskelev1.SupersedeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, old := range f.memories {
		if old.GetId() == req.GetId() && old.GetNamespace() == req.GetReplacement().GetNamespace() {
			m := proto.CloneOf(req.GetReplacement())
			m.Supersedes = old.GetId()
			old.SupersededBy = f.add(m).GetId()
			return &triskelev1.SupersedeResponse{Memory: proto.CloneOf(m), Superseded: proto.CloneOf(old)}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such memory in this namespace")
}

// Forget removes memories.
func (f *Fake) Forget(_ context.Context, req *triskelev1.ForgetRequest) (*triskelev1.ForgetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.memories)
	f.memories = slices.DeleteFunc(f.memories, func(m *triskelev1.Memory) bool {
		return m.GetNamespace() == req.GetNamespace() && slices.Contains(req.GetIds(), m.GetId())
	})
	return &triskelev1.ForgetResponse{Forgotten: int64(before - len(f.memories))}, nil
}

// Get returns memories by id.
func (f *Fake) Get(_ context.Context, req *triskelev1.GetRequest) (*triskelev1.GetResponse, error) {
	memories, resp := f.in(req.GetNamespace(), true), &triskelev1.GetResponse{}
	for _, id := range req.GetIds() {
		if i := slices.IndexFunc(memories, func(m *triskelev1.Memory) bool { return m.GetId() == id }); i >= 0 {
			resp.Memories = append(resp.Memories, memories[i])
		}
	}
	return resp, nil
}

// List pages through a namespace, newest first. Of the filter it knows include_superseded alone.
func (f *Fake) List(_ context.Context, req *triskelev1.ListRequest) (*triskelev1.ListResponse, error) {
	memories := f.in(req.GetNamespace(), req.GetFilter().GetIncludeSuperseded())
	slices.Reverse(memories)
	from := 0
	if token := req.GetPageToken(); token != "" {
		from = 1 + slices.IndexFunc(memories, func(m *triskelev1.Memory) bool { return m.GetId() == token })
	}
	size := cmp.Or(int(req.GetPageSize()), 100)
	resp := &triskelev1.ListResponse{Memories: memories[from:min(from+size, len(memories))]}
	if from+size < len(memories) {
		resp.NextPageToken = memories[from+size-1].GetId()
	}
	return resp, nil
}

// Export streams a namespace, oldest first.
func (f *Fake) Export(req *triskelev1.ExportRequest, stream grpc.ServerStreamingServer[triskelev1.ExportResponse]) error {
	for batch := range slices.Chunk(f.in(req.GetNamespace(), true), 100) {
		if err := stream.Send(&triskelev1.ExportResponse{Memories: batch}); err != nil {
			return err
		}
	}
	return nil
}

// Recall ranks by how many of the query's words a memory has. Ties are newest first.
func (f *Fake) Recall(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	asked := words(req.GetQuery())
	if len(asked) == 0 {
		return nil, status.Error(codes.InvalidArgument, "query: is required")
	}
	resp := &triskelev1.RecallResponse{}
	for _, namespace := range req.GetNamespaces() {
		before := len(resp.GetHits())
		for _, m := range slices.Backward(f.in(namespace, req.GetFilter().GetIncludeSuperseded())) {
			score, has := 0., words(m.GetTitle()+" "+m.GetContent())
			for word := range asked {
				if has[word] {
					score++
				}
			}
			if score > 0 {
				resp.Hits = append(resp.Hits, &triskelev1.Hit{Id: m.GetId(), Namespace: namespace, Score: score, Importance: m.GetImportance(), CreatedAt: m.GetCreatedAt(), Memory: m})
			}
		}
		resp.Legs = append(resp.Legs, &triskelev1.LegReport{
			Leg: "lexical", Namespace: namespace, State: triskelev1.LegState_LEG_STATE_OK, Returned: int32(len(resp.GetHits()) - before),
		})
	}
	slices.SortStableFunc(resp.Hits, func(a, b *triskelev1.Hit) int { return cmp.Compare(b.GetScore(), a.GetScore()) })
	resp.Hits = resp.Hits[:min(len(resp.GetHits()), cmp.Or(int(req.GetLimit()), 10))]
	for i, hit := range resp.GetHits() {
		hit.Rank = int32(i + 1)
	}
	return resp, nil
}

// in returns copies of a namespace's memories in the order stored.
func (f *Fake) in(namespace string, superseded bool) (out []*triskelev1.Memory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.memories {
		if m.GetNamespace() == namespace && (superseded || m.GetSupersededBy() == "") {
			out = append(out, proto.CloneOf(m))
		}
	}
	return out
}

func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		out[word] = true
	}
	return out
}
