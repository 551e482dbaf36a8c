package memory

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"github.com/triskele/triskele/services/store/record"
)

const (
	// contentsBytes bounds the records that are kept, by about their memory. A record without its texts takes keptBytes. One of
	// maxKept bytes or more is not kept.
	contentsBytes = 16 << 20
	keptBytes     = 512
	maxKept       = contentsBytes / 16
)

// contents keeps records that were read lately. The database is still asked for the namespace's revision, in each call: a record is
// what it was as long as nothing in its namespace changes. Sensitive records are not kept.
type contents struct {
	store *Store
	read  func(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error) // Store.Get
	kept  *otter.Cache[contentKey, kept]
}

// contentKey names a record. With uuid.Nil it names the namespace itself, whose last known revision is kept.
type contentKey struct {
	namespace string
	id        uuid.UUID
}

// kept is a record that was read when the namespace had a revision, or later.
type kept struct {
	record   record.Record
	revision string
	bytes    uint32
}

func newContents(store *Store) *contents {
	return &contents{store, store.Get, otter.Must(&otter.Options[contentKey, kept]{
		MaximumWeight: contentsBytes,
		Weigher:       func(_ contentKey, k kept) uint32 { return k.bytes },
		Executor:      func(evict func()) { evict() }, // at once, so that the bound is never exceeded for long
	})}
}

// get is Store.Get.
func (c *contents) get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error) {
	// The revision is read before the records: if they are newer, so will be the next revision.
	last, known := c.kept.GetIfPresent(contentKey{namespace: namespace})
	records := c.recent(namespace, ids, last.revision)
	if records != nil || !known {
		n, err := c.store.Namespace(ctx, namespace)
		switch {
		case err != nil:
			return c.read(ctx, namespace, ids)
		case records != nil && n.Revision == last.revision:
			return records, nil
		}
		last.revision = n.Revision
	}
	behind := false
	records, err := c.read(context.WithValue(ctx, behindKey{}, &behind), namespace, ids)
	if err != nil || behind {
		return records, err
	}
	c.kept.Set(contentKey{namespace: namespace}, kept{revision: last.revision, bytes: keptBytes})
	for _, r := range records {
		metadata, err := json.Marshal(r.Metadata)
		if bytes := keptBytes + len(r.Content) + len(r.Title) + 64*(len(r.Tags)+len(r.Keywords)+len(r.Links)) + 4*len(metadata); err == nil && !r.Sensitive && bytes < maxKept {
			c.kept.Set(contentKey{namespace, r.ID}, kept{owned(r), last.revision, uint32(bytes)})
		}
	}
	return records, nil
}

// recent returns the records if all of them were kept at a revision, else nil.
func (c *contents) recent(namespace string, ids []uuid.UUID, revision string) []record.Record {
	records := make([]record.Record, len(ids))
	for i, id := range ids {
		k, there := c.kept.GetIfPresent(contentKey{namespace, id})
		if !there || k.revision != revision || id == uuid.Nil { // which names the namespace
			return nil
		}
		records[i] = owned(k.record)
	}
	return records
}

// owned returns a record whose lists another caller does not have.
func owned(r record.Record) record.Record {
	r.Tags, r.Keywords, r.Links = slices.Clone(r.Tags), slices.Clone(r.Keywords), slices.Clone(r.Links)
	return r
}
