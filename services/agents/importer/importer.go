// Package importer brings memories from other places into Triskele: a reader for each kind of source, and one way of
// storing what they read that can be interrupted at any moment and run again.
package importer

import (
	"context"
	"iter"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

// Item is what a source holds at one position.
type Item struct {
	Position string             // for people: a line, a row, a file
	Done     int64              // how much of Source.Total has been read with it
	Memory   *triskelev1.Memory // nil if there is a Problem
	// Problem says why the position holds no memory that can be stored.
	Problem *Problem
	// Notes are what the memory lacks of what the position holds.
	Notes []Problem
	// Replaces: the id stands for the position, so that a memory which has it already and differs is an older version of
	// this one.
	Replaces bool
	// Leftovers returns ids of memories that an older version of the position may have had and this one lacks; may be nil.
	Leftovers func() []string
}

// Problem says what could not be imported, or not as it was.
type Problem struct {
	Position string `json:"position"`
	Skipped  bool   `json:"skipped"` // nothing of the position was stored
	Reason   string `json:"reason"`  // one of few
	Detail   string `json:"detail,omitempty"`
}

// Source is something to import from.
type Source interface {
	// Items reads the source from its start, in the same order each time. After an error there is nothing more.
	Items(ctx context.Context) iter.Seq2[Item, error]
	// Total is how far Item.Done goes, -1 if that is unknown.
	Total() int64
}

// skip returns an item for a position without a usable memory.
func skip(position, reason, detail string) Item {
	return Item{Position: position, Problem: &Problem{position, true, reason, detail}}
}

// note adds what a memory lacks.
func (i *Item) note(reason, detail string) {
	i.Notes = append(i.Notes, Problem{i.Position, false, reason, detail})
}

// check turns an item into a skipped one if the server would refuse its memory.
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
