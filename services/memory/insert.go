package memory

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/record"
)

// insertPlan says which of the records given to Insert are to be stored.
type insertPlan struct {
	results []Inserted
	fresh   []record.Record
}

// planInsert tells records that are new from those that are there already, in the store or earlier among records
// themselves. find returns the stored records of a namespace that hold any of the ids or idempotency keys.
func planInsert(records []record.Record, find func(namespace string, ids []uuid.UUID, keys []string) ([]record.Record, error)) (insertPlan, error) {
	type name struct{ namespace, key string }
	type place struct {
		namespace string
		id        uuid.UUID
	}
	byID, byKey := map[place]record.Record{}, map[name]record.Record{}
	remember := func(r record.Record) {
		byID[place{r.Namespace, r.ID}] = r
		if r.IdempotencyKey != "" {
			byKey[name{r.Namespace, r.IdempotencyKey}] = r
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
		found, err := find(namespace, ids, keys)
		if err != nil {
			return insertPlan{}, err
		}
		for _, r := range found {
			remember(r)
		}
	}
	plan := insertPlan{results: make([]Inserted, len(records))}
	for i, r := range records {
		held, ok := byKey[name{r.Namespace, r.IdempotencyKey}]
		if !ok {
			held, ok = byID[place{r.Namespace, r.ID}]
		}
		switch {
		case !ok:
			plan.fresh = append(plan.fresh, r)
			plan.results[i] = Inserted{r, true}
			remember(r)
		case sameContents(held, r):
			plan.results[i] = Inserted{held, false}
		default:
			return insertPlan{}, &ConflictError{i, held.ID}
		}
	}
	return plan, nil
}

// sameContents says whether two records hold the same memory, whatever the server has added to it since.
func sameContents(a, b record.Record) bool {
	return a.Namespace == b.Namespace && a.Content == b.Content && a.Title == b.Title && a.Category == b.Category &&
		a.Importance == b.Importance && a.Sensitive == b.Sensitive && a.Source == b.Source && a.IdempotencyKey == b.IdempotencyKey &&
		slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags) &&
		a.OccurredAt.Equal(b.OccurredAt) && a.ExpiresAt.Equal(b.ExpiresAt) &&
		maps.EqualFunc(a.Metadata, b.Metadata, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}

func namespacesOf(records []record.Record) []string {
	seen := map[string]bool{}
	for _, r := range records {
		seen[r.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen))
}
