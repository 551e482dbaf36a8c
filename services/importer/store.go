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

// put stores a batch. A memory that the server refuses is updated if its id stands for its position, and else skipped.
func (s store) put(ctx context.Context, b *batch) error {
	for items := b.items; len(items) > 0; {
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
		if err := s.settle(ctx, b, items[at], status.Code(err), reason); err != nil {
			return err
		}
		if s.strict && b.skipped() != nil {
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

// settle deals with a memory that was refused.
func (s store) settle(ctx context.Context, b *batch, item Item, code codes.Code, reason string) error {
	switch {
	case code != codes.AlreadyExists:
		b.skip(Problem{item.Position, true, "refused", reason})
		return nil
	case !item.Replaces:
		b.skip(Problem{item.Position, true, "conflict", reason})
		return nil
	}
	keeps, err := s.keepSensitive(ctx, b, &item)
	if err != nil {
		return err
	}
	if keeps { // they may differ in nothing else
		err := s.send(ctx, b, []Item{item})
		if status.Code(err) != codes.AlreadyExists {
			return err
		}
	}
	if s.dryRun {
		b.Updated++
		return nil
	}
	mask := &fieldmaskpb.FieldMask{Paths: contents}
	if item.Memory.GetSensitive() {
		mask.Paths = append(slices.Clone(contents), "sensitive")
	}
	err = s.call(ctx, func(ctx context.Context) error {
		_, err := s.memories.Update(ctx, &triskelev1.UpdateRequest{
			Namespace: item.Memory.GetNamespace(), Id: item.Memory.GetId(), Memory: item.Memory, UpdateMask: mask,
		})
		return err
	})
	if err != nil {
		return err
	}
	b.Updated++
	if item.Leftovers == nil {
		return nil
	}
	return s.call(ctx, func(ctx context.Context) error {
		resp, err := s.memories.Forget(ctx, &triskelev1.ForgetRequest{Namespace: item.Memory.GetNamespace(), Ids: item.Leftovers()})
		b.Forgotten += resp.GetForgotten()
		return err
	})
}

// keepSensitive makes an item sensitive if the stored memory is: somebody may have found out here what the source does
// not know, and what a model has been shown cannot be taken back.
func (s store) keepSensitive(ctx context.Context, b *batch, item *Item) (keeps bool, err error) {
	m := item.Memory
	if m.GetSensitive() {
		return false, nil
	}
	err = s.call(ctx, func(ctx context.Context) error {
		resp, err := s.memories.Get(ctx, &triskelev1.GetRequest{Namespace: m.GetNamespace(), Ids: []string{m.GetId()}})
		keeps = len(resp.GetMemories()) == 1 && resp.GetMemories()[0].GetSensitive()
		return err
	})
	if keeps {
		m.Sensitive = true
		b.Problems = append(b.Problems, Problem{item.Position, false, "stays sensitive", "the source says it is not; triskele update --no-sensitive " + m.GetId() + " if that is so"})
	}
	return keeps, err
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
