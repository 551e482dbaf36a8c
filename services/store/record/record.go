// Package record holds the domain types that the memory service and every leg share: a memory, and the filter that
// narrows a search. It imports no database driver and no gRPC.
package record

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// DefaultImportance is what a memory gets whose writer said nothing about how much it matters.
const DefaultImportance = 0.5

// MaxRevision is more than anybody counts up to by changing a memory.
const MaxRevision = 1 << 53

// Span is a part of a text, in bytes; End is the first one after it.
type Span struct{ Start, End int }

// Matches are the words of a query in a record.
type Matches struct{ Title, Content []Span }

// Record is one memory as it is stored. Times are UTC with microsecond precision; a zero time or uuid.Nil means unset.
type Record struct {
	ID             uuid.UUID
	Namespace      string
	Content        string
	Title          string
	Keywords       []string // words the content lacks but a reader might search for
	Tags           []string
	Category       string
	Metadata       map[string]any // a JSON object
	Importance     float64        // 0 to 1
	Sensitive      bool           // never embedded, linked, or sent to a model
	Source         string
	CreatedAt      time.Time
	UpdatedAt      time.Time
	OccurredAt     time.Time
	ExpiresAt      time.Time
	Supersedes     uuid.UUID
	SupersededBy   uuid.UUID
	Revision       int64 // from 1 to MaxRevision
	IdempotencyKey string
	Links          []Link
	Sequence       int64 // number of the write that made this revision, from 1; set by the store
}

// Link is an edge that the author of a memory drew to another one of the same namespace, which need not exist.
type Link struct {
	Target   uuid.UUID `json:"target"`
	Relation string    `json:"relation"`
}

// Filter narrows a search or a listing; the zero Filter lets every live memory pass. A memory is live while it is
// neither superseded nor expired.
type Filter struct {
	TagsAny           []string
	TagsAll           []string
	Categories        []string
	CreatedFrom       time.Time // inclusive
	CreatedBefore     time.Time // exclusive
	Metadata          map[string]any
	IncludeSuperseded bool
}

// Narrow says whether the filter has any condition beyond liveness, which decides if a leg should search among the
// matching memories or check the ones it found.
func (f Filter) Narrow() bool {
	return len(f.TagsAny)+len(f.TagsAll)+len(f.Categories)+len(f.Metadata) > 0 || !f.CreatedFrom.IsZero() || !f.CreatedBefore.IsZero()
}

// Now is the current time at the precision that both stores keep.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// SameContents says whether two records hold the same memory, whatever the server has added to it since.
func SameContents(a, b Record) bool {
	return a.Namespace == b.Namespace && a.Content == b.Content && a.Title == b.Title && a.Category == b.Category &&
		a.Importance == b.Importance && a.Sensitive == b.Sensitive && a.Source == b.Source && a.IdempotencyKey == b.IdempotencyKey &&
		slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Links, b.Links) &&
		a.OccurredAt.Equal(b.OccurredAt) && a.ExpiresAt.Equal(b.ExpiresAt) &&
		maps.EqualFunc(a.Metadata, b.Metadata, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}
