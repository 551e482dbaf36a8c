package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/queue"
)

// ErrNamespaceTaken: a namespace has the new name already.
var ErrNamespaceTaken = errors.New("namespace exists already")

// Namespace describes a namespace without reading its memories.
type Namespace struct {
	Name      string
	CreatedAt time.Time
	// Revision is the state of its memories. Equal ones mean equal memories, except for expiry; they have no order. It is empty in a list.
	Revision string
}

// Statistics counts a namespace's memories. A memory both superseded and expired counts as superseded.
type Statistics struct {
	Live, Superseded, Expired int64
	Sensitive                 int64 // in any state
	Bytes                     int64 // of texts, lists and metadata
	Indexes                   []queue.Backlog
}

// GetNamespace implements triskelev1.MemoryServiceServer.
func (s *Server) GetNamespace(ctx context.Context, req *triskelev1.GetNamespaceRequest) (*triskelev1.GetNamespaceResponse, error) {
	limit := s.limits.call
	if req.GetStatistics() {
		limit = s.limits.batch
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := s.store.Namespace(ctx, req.GetNamespace())
	if err != nil {
		return nil, namespaceError(req.GetNamespace(), err)
	}
	resp := &triskelev1.GetNamespaceResponse{
		Namespace: n.Name, CreatedAt: timestamppb.New(n.CreatedAt), Revision: n.Revision,
	}
	if !req.GetStatistics() {
		return resp, nil
	}
	st, err := s.store.Statistics(ctx, req.GetNamespace())
	if err != nil {
		return nil, storeError(err)
	}
	resp.Memories = st.Live + st.Superseded + st.Expired
	resp.Statistics = &triskelev1.NamespaceStatistics{
		Live: st.Live, Superseded: st.Superseded, Expired: st.Expired, Sensitive: st.Sensitive, Bytes: st.Bytes,
	}
	for _, i := range st.Indexes {
		resp.Statistics.Indexes = append(resp.Statistics.Indexes, &triskelev1.IndexLag{
			Index: i.Index, Pending: i.Pending, Dead: i.Dead, Lag: durationpb.New(i.Lag),
		})
	}
	return resp, nil
}

func namespaceError(name string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return status.Errorf(codes.NotFound, "namespace: %q is unknown; storing a memory in it creates it", name)
	}
	return storeError(err)
}

// ListNamespaces implements triskelev1.MemoryServiceServer.
func (s *Server) ListNamespaces(ctx context.Context, req *triskelev1.ListNamespacesRequest) (*triskelev1.ListNamespacesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil || !utf8.Valid(after) || slices.Contains(after, 0) {
		return nil, rpc.Invalid("page_token", "must be the next_page_token of an earlier page")
	}
	size := cmp.Or(int(req.GetPageSize()), defaultPageSize)
	found, err := s.store.ListNamespaces(ctx, req.GetPrefix(), string(after), size+1)
	if err != nil {
		return nil, storeError(err)
	}
	resp := &triskelev1.ListNamespacesResponse{}
	if len(found) > size {
		found = found[:size]
		resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(found[size-1].Name))
	}
	for _, n := range found {
		resp.Namespaces = append(resp.Namespaces, &triskelev1.ListNamespacesResponse_Namespace{
			Namespace: n.Name, CreatedAt: timestamppb.New(n.CreatedAt),
		})
	}
	return resp, nil
}

// RenameNamespace implements triskelev1.MemoryServiceServer.
func (s *Server) RenameNamespace(ctx context.Context, req *triskelev1.RenameNamespaceRequest) (*triskelev1.RenameNamespaceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.whole)
	defer cancel()
	moved, err := s.store.RenameNamespace(ctx, req.GetNamespace(), req.GetNewName())
	if errors.Is(err, ErrNamespaceTaken) {
		return nil, status.Errorf(codes.AlreadyExists, "new_name: namespace %q exists already: delete it first, if nothing in it is needed", req.GetNewName())
	}
	if err != nil {
		return nil, namespaceError(req.GetNamespace(), err)
	}
	return &triskelev1.RenameNamespaceResponse{Memories: moved}, nil
}

// DeleteNamespace implements triskelev1.MemoryServiceServer.
func (s *Server) DeleteNamespace(ctx context.Context, req *triskelev1.DeleteNamespaceRequest) (_ *triskelev1.DeleteNamespaceResponse, err error) {
	ctx, end := begin(ctx, s.limits.whole, deleteStore, 0)
	defer func() { end(err) }()
	forgotten, err := s.store.DeleteNamespace(ctx, req.GetNamespace())
	if err != nil {
		return nil, storeError(err)
	}
	return &triskelev1.DeleteNamespaceResponse{Forgotten: forgotten}, nil
}
