// Package record holds the domain types that the memory service and every leg share. Record is a memory as it is
// stored. Filter narrows a search or a listing. FromProto and ToProto convert them from and to messages, and check
// the bounds that the messages cannot declare. UndecodableError reports a damaged row without quoting it. The package
// imports no database driver and no gRPC.
package record

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// DefaultImportance is the importance of a memory whose author gave none.
const DefaultImportance = 0.5

// MaxRevision is the highest revision of a memory.
const MaxRevision = 1 << 53

// Span is a part of a text, in bytes; End is exclusive.
type Span struct{ Start, End int }

// Matches are where a query's words are in a record.
type Matches struct{ Title, Content []Span }

// Record is one memory as it is stored. Times are UTC with microsecond precision; a zero time or uuid.Nil means unset.
type Record struct {
	ID             uuid.UUID
	Namespace      string
	Content        string
	Title          string
	Keywords       []string // search words that the content lacks
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
	Thread         string // of the namespace; "" if the memory is part of none
	Position       *int64 // in the thread; nil if it has none
	Sequence       int64  // number of the write that made this revision, from 1; set by the store
}

// Columns are the columns of a record in the order in which stores read them, for a row called m.
const Columns = `m.namespace, m.id, m.content, m.title, m.expanded_keywords, m.tags, m.category, m.metadata,
	m.importance, m.sensitive, m.source, m.created_at, m.updated_at, m.occurred_at, m.expires_at, m.supersedes,
	m.superseded_by, m.revision, m.idempotency_key, m.links, m.sequence, m.thread, m.position`

// Link is an edge that the author of a memory drew to another one of the namespace, which need not exist.
type Link struct {
	Target   uuid.UUID `json:"target"`
	Relation string    `json:"relation"`
}

// Key identifies a record.
type Key struct {
	Namespace string
	ID        uuid.UUID
}

// Key returns the record's key.
func (r Record) Key() Key { return Key{r.Namespace, r.ID} }

// Newest returns the newest revision of each record, in the order of keys: transactions that lock rows in it do not wait in a circle.
func Newest(records []Record) []Record {
	sorted := slices.SortedFunc(slices.Values(records), func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), slices.Compare(a.ID[:], b.ID[:]), cmp.Compare(b.Revision, a.Revision))
	})
	return slices.CompactFunc(sorted, func(a, b Record) bool { return a.Key() == b.Key() })
}

// Filter narrows a search or a listing; the zero Filter lets every live memory pass. A memory is live while it is
// neither superseded nor expired.
type Filter struct {
	TagsAny           []string
	TagsAll           []string
	Categories        []string
	CreatedFrom       time.Time // inclusive
	CreatedBefore     time.Time // exclusive
	OccurredFrom      time.Time // inclusive; of a memory without such a time, when it was created
	OccurredBefore    time.Time // exclusive
	Metadata          map[string]any
	IncludeSuperseded bool
}

// Narrow reports whether the filter has a condition besides liveness. A leg then searches only matching memories,
// instead of checking its hits.
func (f Filter) Narrow() bool {
	return len(f.TagsAny)+len(f.TagsAll)+len(f.Categories)+len(f.Metadata) > 0 || !f.CreatedFrom.IsZero() || !f.CreatedBefore.IsZero() ||
		!f.OccurredFrom.IsZero() || !f.OccurredBefore.IsZero()
}

// Now returns the current time at the precision of both stores.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// SameContents reports whether two records have the same contents, ignoring the server's own fields.
func SameContents(a, b Record) bool {
	return a.Namespace == b.Namespace && a.Content == b.Content && a.Title == b.Title && a.Category == b.Category &&
		a.Importance == b.Importance && a.Sensitive == b.Sensitive && a.Source == b.Source && a.IdempotencyKey == b.IdempotencyKey &&
		slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Links, b.Links) &&
		a.OccurredAt.Equal(b.OccurredAt) && a.ExpiresAt.Equal(b.ExpiresAt) && a.Thread == b.Thread && reflect.DeepEqual(a.Position, b.Position) &&
		maps.EqualFunc(a.Metadata, b.Metadata, reflect.DeepEqual)
}
