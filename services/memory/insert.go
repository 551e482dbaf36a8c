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

// insertPlan tells which records of an Insert must be stored.
type insertPlan struct {
	fresh  []record.Record // to be stored
	places []place         // one per record
}

// place is the location of a record of an Insert.
type place struct {
	fresh int           // index in insertPlan.fresh if it or its duplicate is stored now, else -1
	held  record.Record // as stored earlier
	first bool          // not a duplicate of an earlier one
}

// outcome returns the result of each record, once the fresh ones are stored.
func (p insertPlan) outcome() []Inserted {
	results := make([]Inserted, len(p.places))
	for i, at := range p.places {
		if results[i].Record = at.held; at.fresh >= 0 {
			results[i] = Inserted{p.fresh[at.fresh], at.first}
		}
	}
	return results
}

// planInsert separates new records from those that exist, in the store or earlier in the list. A record whose successor is
// stored before it is superseded from the start.
func planInsert(ctx context.Context, db sqldb.DB, records []record.Record) (insertPlan, error) {
	within := sqldb.Scope(namespacesOf(records))
	type keyName struct{ namespace, key string }
	byID, byKey, replacements := map[record.Key]place{}, map[keyName]place{}, map[record.Key]record.Record{}
	remember := func(r record.Record, at place) {
		byID[r.Key()] = at
		if r.IdempotencyKey != "" {
			byKey[keyName{r.Namespace, r.IdempotencyKey}] = at
		}
	}
	for _, namespace := range namespacesOf(records) {
		var ids []uuid.UUID
		var keys []string
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
			UNION ALL `+selectRecords+` AND m.idempotency_key = ANY($3::text[])`, namespace, ids, list(keys))
		if err != nil {
			return insertPlan{}, err
		}
		for _, r := range found {
			remember(r, place{fresh: -1, held: r})
			old := record.Key{Namespace: namespace, ID: r.Supersedes}
			if first, ok := replacements[old]; r.Supersedes != uuid.Nil && (!ok || older(r, first)) {
				replacements[old] = r
			}
		}
	}
	plan := insertPlan{places: make([]place, len(records))}
	for i, r := range records {
		at, ok := byKey[keyName{r.Namespace, r.IdempotencyKey}]
		if !ok {
			at, ok = byID[r.Key()]
		}
		switch {
		case !ok:
			if by, replaced := replacements[r.Key()]; replaced && r.SupersededBy == uuid.Nil {
				r.SupersededBy = by.ID
				if r.UpdatedAt.Before(by.CreatedAt) {
					r.UpdatedAt = by.CreatedAt
				}
			}
			at = place{fresh: len(plan.fresh), held: r}
			remember(r, at)
			at.first = true
			plan.fresh = append(plan.fresh, r)
		case !record.SameContents(at.held, r):
			return insertPlan{}, &ConflictError{i, at.held.ID}
		}
		plan.places[i] = at
	}
	return plan, nil
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
