package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// planInsert tells new records from those that exist, in the store or earlier in the list: the results are as Insert's, but new records
// have no Sequence yet. A record whose successor is stored before it is superseded from the start.
func planInsert(ctx context.Context, db sqldb.DB, records []record.Record) ([]Inserted, error) {
	within := sqldb.Scope(namespacesOf(records))
	type keyName struct{ namespace, key string }
	byID, byKey, replacements := map[record.Key]record.Record{}, map[keyName]record.Record{}, map[record.Key]record.Record{}
	remember := func(r record.Record) {
		byID[r.Key()] = r
		if r.IdempotencyKey != "" {
			byKey[keyName{r.Namespace, r.IdempotencyKey}] = r
		}
	}
	for _, namespace := range namespacesOf(records) {
		ids, keys := []uuid.UUID{}, []string{}
		for _, r := range records {
			if r.Namespace == namespace {
				ids = append(ids, r.ID)
				if r.IdempotencyKey != "" {
					keys = append(keys, r.IdempotencyKey)
				}
			}
		}
		// The stored records with any of the ids or keys, and the successors of the ids. One SELECT per index: SQLite would read
		// the whole namespace for an OR.
		found, err := db.In(within).Records(ctx, selectRecords+` AND m.id = ANY($2::uuid[])
			UNION ALL `+selectRecords+` AND m.supersedes IS NOT NULL AND m.supersedes = ANY($2::uuid[])
			UNION ALL `+selectRecords+` AND m.idempotency_key = ANY($3::text[])`, namespace, ids, keys)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			remember(r)
			old := record.Key{Namespace: namespace, ID: r.Supersedes}
			if first, ok := replacements[old]; r.Supersedes != uuid.Nil && (!ok || older(r, first)) {
				replacements[old] = r
			}
		}
	}
	results := make([]Inserted, len(records))
	for i, r := range records {
		held, known := byKey[keyName{r.Namespace, r.IdempotencyKey}]
		if !known {
			held, known = byID[r.Key()]
		}
		switch {
		case !known:
			if by, replaced := replacements[r.Key()]; replaced && r.SupersededBy == uuid.Nil {
				r.SupersededBy = by.ID
				if r.UpdatedAt.Before(by.CreatedAt) {
					r.UpdatedAt = by.CreatedAt
				}
			}
			remember(r)
			held = r
		case !record.SameContents(held, r):
			return nil, &ConflictError{i, held.ID}
		}
		results[i] = Inserted{held, !known}
	}
	return results, nil
}

// older is the order of exports.
func older(a, b record.Record) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), slices.Compare(a.ID[:], b.ID[:])) < 0
}

func namespacesOf(records []record.Record) []string {
	seen := map[string]bool{}
	for _, r := range records {
		seen[r.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen))
}
