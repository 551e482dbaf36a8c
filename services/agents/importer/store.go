package importer

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

// contents are the fields that a newer version of a position replaces. If it is sensitive, it replaces that field too.
var contents = []string{
	"content", "title", "expanded_keywords", "tags", "category", "metadata", "importance", "source", "occurred_at", "expires_at", "links",
	"thread", "position",
}

// pageSize is how many memories a listing returns at a time.
const pageSize = 1000

// write stores the memories of a batch. It updates memories of positions that were imported before, if they differ. It skips
// memories that the server refuses.
func (r *run) write(ctx context.Context, b *batch) error {
	held, err := r.held(ctx, b)
	if err != nil {
		return err
	}
	var items []Item
	for _, item := range b.items {
		stored, ok := held[item.Memory.GetId()]
		if !ok {
			items = append(items, item)
		} else if err := r.replace(ctx, b, item, stored); err != nil {
			return err
		}
	}
	for len(items) > 0 {
		err := r.send(ctx, b, items)
		if err == nil {
			return nil
		}
		at, reason, ok := refused(err)
		if !ok || at >= len(items) {
			return err
		}
		if err := r.send(ctx, b, items[:at]); err != nil {
			return err
		}
		why := "refused"
		if status.Code(err) == codes.AlreadyExists {
			why = "conflict"
		}
		b.skip(Problem{items[at].Position, true, why, reason})
		if r.Strict {
			return nil
		}
		items = items[at+1:]
	}
	return nil
}

func (r *run) send(ctx context.Context, b *batch, items []Item) error {
	if len(items) == 0 {
		return nil
	}
	req := &triskelev1.ImportRequest{DryRun: r.DryRun, Memories: slice.Map(items, func(i Item) *triskelev1.Memory { return i.Memory })}
	if r.Timeout > 0 { // the client bounds all calls but streams
		limited, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		ctx = limited
	}
	stream, err := r.memories.Import(ctx)
	if err != nil {
		return err
	}
	// Send fails with io.EOF when the call has ended. CloseAndRecv then returns its error.
	if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	resp, err := stream.CloseAndRecv()
	b.Stored += resp.GetStored()
	b.Unchanged += resp.GetUnchanged()
	return err
}

// held returns the stored memories, by id, of positions that were imported before.
func (r *run) held(ctx context.Context, b *batch) (map[string]*triskelev1.Memory, error) {
	ids := map[string][]string{}
	for _, item := range b.items {
		if item.Replaces {
			ids[item.Memory.GetNamespace()] = append(ids[item.Memory.GetNamespace()], item.Memory.GetId())
		}
	}
	held := map[string]*triskelev1.Memory{}
	for namespace, of := range ids {
		resp, err := r.memories.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: of})
		if err != nil {
			return nil, err
		}
		for _, m := range resp.GetMemories() {
			held[m.GetId()] = m
		}
	}
	return held, nil
}

// replace updates a stored memory from its position. It can make the memory sensitive, but not the reverse. A person may have
// marked it as sensitive after the import, and a text cannot be taken back from a model that has read it.
func (r *run) replace(ctx context.Context, b *batch, item Item, stored *triskelev1.Memory) error {
	m := item.Memory
	mask := &fieldmaskpb.FieldMask{Paths: contents}
	switch {
	case m.GetSensitive():
		mask.Paths = append(slices.Clone(contents), "sensitive")
	case stored.GetSensitive():
		m.Sensitive = true
		b.Problems = append(b.Problems, Problem{
			item.Position, false, "stays sensitive", "the source says it is not; run triskele update --no-sensitive " + m.GetId() + " to change that",
		})
	}
	same, err := sameContents(m, stored)
	switch {
	case err != nil:
		return err
	case same:
		b.Unchanged++
		return nil
	}
	if by := stored.GetSupersededBy(); by != "" {
		b.Problems = append(b.Problems, Problem{item.Position, false, "superseded", "memory " + by + " has replaced it, and recall finds that one: correct it there"})
	}
	b.Updated++
	if !r.DryRun {
		_, err = r.memories.Update(ctx, &triskelev1.UpdateRequest{Namespace: m.GetNamespace(), Id: m.GetId(), Memory: m, UpdateMask: mask})
	}
	return err
}

func (r *run) forget(ctx context.Context, b *batch) error {
	for _, req := range b.forget {
		if r.DryRun {
			b.Forgotten += int64(len(req.GetIds()))
			continue
		}
		resp, err := r.memories.Forget(ctx, req)
		if err != nil {
			return err
		}
		b.Forgotten += resp.GetForgotten()
	}
	return nil
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

// refused returns the index of the memory that an import was refused for, and the reason.
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
