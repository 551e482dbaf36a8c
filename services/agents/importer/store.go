package importer

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

// contents are the fields that a newer version of a position replaces; sensitive besides, but only if it is set.
var contents = []string{
	"content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "source", "occurred_at", "expires_at", "links",
}

// store puts batches into the memory service.
type store struct {
	memories triskelev1.MemoryServiceClient
	dryRun   bool
	strict   bool // leave out what comes after a memory that is skipped
	timeout  time.Duration
}

// put stores a batch. A memory whose id stands for its position is updated if it is there already and differs, and one that the
// server refuses is skipped.
func (s store) put(ctx context.Context, b *batch) error {
	held, err := s.held(ctx, b)
	if err != nil {
		return err
	}
	var items []Item
	for _, item := range b.items {
		stored, ok := held[item.Memory.GetId()]
		if !ok {
			items = append(items, item)
		} else if err := s.replace(ctx, b, item, stored); err != nil {
			return err
		}
	}
	for len(items) > 0 {
		err := s.send(ctx, b, items)
		if err == nil {
			return nil
		}
		at, reason, ok := refused(err)
		if !ok || at >= len(items) {
			return err
		}
		if err := s.send(ctx, b, items[:at]); err != nil {
			return err
		}
		why := "refused"
		if status.Code(err) == codes.AlreadyExists {
			why = "conflict"
		}
		b.skip(Problem{items[at].Position, true, why, reason})
		if s.strict {
			return nil
		}
		items = items[at+1:]
	}
	return nil
}

func (s store) call(ctx context.Context, fn func(context.Context) error) error {
	if s.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		ctx = limited
	}
	return fn(ctx)
}

// since returns when a namespace came to be, the zero time if there is none.
func (s store) since(ctx context.Context, namespace string) (at time.Time, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		resp, err := s.memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		at = resp.GetCreatedAt().AsTime()
		return err
	})
	return at, err
}

// send stores memories in one transaction.
func (s store) send(ctx context.Context, b *batch, items []Item) error {
	if len(items) == 0 {
		return nil
	}
	req := &triskelev1.ImportRequest{DryRun: s.dryRun, Memories: make([]*triskelev1.Memory, len(items))}
	for i, item := range items {
		req.Memories[i] = item.Memory
	}
	return s.call(ctx, func(ctx context.Context) error {
		stream, err := s.memories.Import(ctx)
		if err != nil {
			return err
		}
		// A failed Send means that the call has ended; CloseAndRecv says how.
		if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		resp, err := stream.CloseAndRecv()
		b.Stored += resp.GetStored()
		b.Unchanged += resp.GetUnchanged()
		return err
	})
}

// held returns what the store has already of the memories whose ids stand for their positions.
func (s store) held(ctx context.Context, b *batch) (map[string]*triskelev1.Memory, error) {
	ids := map[string][]string{}
	for _, item := range b.items {
		if item.Replaces {
			ids[item.Memory.GetNamespace()] = append(ids[item.Memory.GetNamespace()], item.Memory.GetId())
		}
	}
	held := map[string]*triskelev1.Memory{}
	for namespace, of := range ids {
		err := s.call(ctx, func(ctx context.Context) error {
			resp, err := s.memories.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: of})
			for _, m := range resp.GetMemories() {
				held[m.GetId()] = m
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

// replace brings a stored memory up to date with its position. It makes it sensitive if it is to be, but never the reverse:
// somebody may have found out here what the source does not know, and what a model has been shown cannot be taken back.
func (s store) replace(ctx context.Context, b *batch, item Item, stored *triskelev1.Memory) error {
	m := item.Memory
	mask := &fieldmaskpb.FieldMask{Paths: contents}
	switch {
	case m.GetSensitive():
		mask.Paths = append(slices.Clone(contents), "sensitive")
	case stored.GetSensitive():
		m.Sensitive = true
		b.Problems = append(b.Problems, Problem{item.Position, false, "stays sensitive", "the source says it is not; triskele update --no-sensitive " + m.GetId() + " if that is so"})
	}
	same, err := sameContents(m, stored)
	switch {
	case err != nil:
		return err
	case same:
		b.Unchanged++
		return nil
	case s.dryRun:
		b.Updated++
		return nil
	}
	if err := s.call(ctx, func(ctx context.Context) error {
		_, err := s.memories.Update(ctx, &triskelev1.UpdateRequest{Namespace: m.GetNamespace(), Id: m.GetId(), Memory: m, UpdateMask: mask})
		return err
	}); err != nil {
		return err
	}
	b.Updated++
	if item.Leftovers == nil {
		return nil
	}
	return s.call(ctx, func(ctx context.Context) error {
		resp, err := s.memories.Forget(ctx, &triskelev1.ForgetRequest{Namespace: m.GetNamespace(), Ids: item.Leftovers()})
		b.Forgotten += resp.GetForgotten()
		return err
	})
}

func sameContents(a, b *triskelev1.Memory) (bool, error) {
	x, err := record.FromProto(a)
	if err != nil {
		return false, err
	}
	y, err := record.FromProto(b)
	return record.SameContents(x, y), err
}

var refusal = regexp.MustCompile(`^memories\[(\d+)\][.:]?\s*(.*)$`)

// refused says which of the memories of an import was the reason for an error, and what was wrong with it.
func refused(err error) (index int, reason string, ok bool) {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.AlreadyExists:
	default:
		return 0, "", false
	}
	match := refusal.FindStringSubmatch(status.Convert(err).Message())
	if match == nil {
		return 0, "", false
	}
	index, err = strconv.Atoi(match[1])
	return index, match[2], err == nil
}
