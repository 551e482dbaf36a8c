// Package importer imports memories from JSON lines, folders of Markdown notes, conversations and other memory servers. An import can be
// interrupted at any moment and run again: ids and idempotency keys follow from the source, so nothing is stored twice. The process is:
//
//  1. A Source yields items: a memory, or the problem that keeps a position from being imported.
//  2. read groups items into batches.
//  3. write stores each batch in one transaction. It updates memories whose position was imported before, and skips memories that
//     the server refuses. forget forgets what the source no longer has. A few batches are stored concurrently.
//  4. acknowledge takes the batches in the source's order and adds them to the report.
package importer

import (
	"context"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

// Item is the content of a source at one position.
type Item struct {
	Position string             // a line, a row or a file, for messages
	Done     int64              // how much of Source.Total is read after this item
	Memory   *triskelev1.Memory // nil if there is a Problem
	// Problem says why the position has no memory that can be stored.
	Problem *Problem
	// Notes name the parts of the position that the memory lacks.
	Notes []Problem
	// Unchanged is set if the memory is stored as it is.
	Unchanged bool
	// Replaces is set if the id follows from the position. A stored memory with the same id is then an older version.
	Replaces bool
	// Forget names memories of the source that it no longer has. The item then has no memory.
	Forget *triskelev1.ForgetRequest
}

// Problem says that a position was not imported, or not completely.
type Problem struct {
	Position string `json:"position"`
	Skipped  bool   `json:"skipped"` // nothing of the position was stored
	Reason   string `json:"reason"`  // one of a few, to group by
	Detail   string `json:"detail,omitempty"`
}

// Source yields items to import.
type Source interface {
	// Read calls take with each item from the start. It ends with the first error, of its own or of take.
	Read(ctx context.Context, take func(Item) error) error
	// Total is the largest Item.Done, or -1 if it is unknown.
	Total() int64
}

func skip(position, reason, detail string) Item {
	return Item{Position: position, Problem: &Problem{position, true, reason, detail}}
}

func (i *Item) note(reason, detail string) {
	i.Notes = append(i.Notes, Problem{i.Position, false, reason, detail})
}

// check validates the item's memory as the server does. It replaces an item with an invalid memory by a skipped one.
func (i *Item) check() error {
	err := protovalidate.Validate(i.Memory)
	if err == nil {
		_, err = record.FromProto(i.Memory)
	} else {
		err = rpc.FromViolations("", err)
	}
	if err == nil {
		return nil
	}
	detail := status.Convert(err).Message()
	field, _, ok := strings.Cut(detail, ":")
	if !ok {
		return err
	}
	field, _, _ = strings.Cut(field, "[")
	*i = Item{Position: i.Position, Done: i.Done, Problem: &Problem{i.Position, true, "invalid " + field, detail}}
	return nil
}
