package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// exportPage is how many memories are read at a time, and exportBytes the approximate size of a message.
	exportPage, exportBytes = 100, 256 << 10
	// maxExports limits concurrent exports, and maxExportsOf those of one tenant. The tenant is the first part of a
	// namespace's name.
	maxExports, maxExportsOf = 8, 3
	// maxPages limits concurrent page reads, and so the connections that exports use.
	maxPages = 2
)

// exports counts running exports.
type exports struct {
	pages chan struct{}

	mu  sync.Mutex
	all int
	of  map[string]int // by tenant, if not 0
}

// begin admits an export or returns RESOURCE_EXHAUSTED.
func (e *exports) begin(namespace string) (end func(), err error) {
	tenant, _, _ := strings.Cut(namespace, "/")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == maxExports || e.of[tenant] == maxExportsOf {
		return nil, status.Errorf(codes.ResourceExhausted, "namespace: %d exports are running, %d of them of %q: wait until one ends", e.all, e.of[tenant], tenant)
	}
	e.all++
	e.of[tenant]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all--
		if e.of[tenant]--; e.of[tenant] == 0 {
			delete(e.of, tenant)
		}
	}, nil
}

// Export implements triskelev1.MemoryServiceServer. It holds no database resources while it sends: a receiver may be
// slow.
func (s *Server) Export(req *triskelev1.ExportRequest, stream grpc.ServerStreamingServer[triskelev1.ExportResponse]) error {
	end, err := s.exports.begin(req.GetNamespace())
	if err != nil {
		return err
	}
	defer end()
	var first time.Time
	for after := (Cursor{}); ; {
		records, created, err := s.page(stream.Context(), req.GetNamespace(), after)
		switch {
		case !first.IsZero() && (errors.Is(err, ErrNotFound) || err == nil && !created.Equal(first)):
			return status.Error(codes.Aborted, "namespace: it was renamed or deleted during the export; start the export again")
		case err != nil:
			return namespaceError(req.GetNamespace(), err)
		case len(records) == 0:
			return nil
		}
		first = created
		for memories := slice.Map(records, record.ToProto); len(memories) > 0; {
			n := fit(memories)
			if err := rpc.SendInTime(stream.Send, &triskelev1.ExportResponse{Memories: memories[:n]}, s.limits.send); err != nil {
				return err
			}
			memories = memories[n:]
		}
		after = behind(records[len(records)-1])
	}
}

// fit returns how many memories a message takes: at least one.
func fit(memories []*triskelev1.Memory) int {
	bytes := 0
	for i, m := range memories {
		if bytes += proto.Size(m); bytes > exportBytes {
			return max(i, 1)
		}
	}
	return len(memories)
}

func (s *Server) page(ctx context.Context, namespace string, after Cursor) ([]record.Record, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	select {
	case s.exports.pages <- struct{}{}:
		defer func() { <-s.exports.pages }()
	case <-ctx.Done():
		return nil, time.Time{}, fmt.Errorf("wait for the pages of other exports: %w", ctx.Err())
	}
	return s.store.Page(ctx, namespace, after, exportPage)
}
