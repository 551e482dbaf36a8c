package memory_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// noIndex is an inline index without rows, whose foreign keys would notice that a memory is absent.
type noIndex struct{}

func (noIndex) Prepare(context.Context, []record.Record) func(context.Context, sqldb.Tx, []record.Record) error {
	return func(context.Context, sqldb.Tx, []record.Record) error { return nil }
}

func (noIndex) Matches(context.Context, sqldb.DB, string, string, []record.Record) ([]record.Matches, error) {
	return nil, nil
}

// A namespace that is absent when its memories are stored makes the write begin again: the first two attempts do not find it.
func TestNamespaceGoneMeanwhile(t *testing.T) {
	t.Parallel()
	if pgtest.Distributed(t) {
		t.Skip("a cluster takes no triggers")
	}
	f := storetest.Postgres(t)
	for _, statement := range []string{
		`CREATE SEQUENCE attempts`,
		`CREATE FUNCTION not_yet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN nextval('attempts') > 2 THEN NEW END; END $$`,
		`CREATE TRIGGER not_yet BEFORE INSERT ON memory.namespaces FOR EACH ROW EXECUTE FUNCTION not_yet()`,
	} {
		if _, err := f.Pool.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	store := memory.NewStore(sqldb.Store{Pool: f.Pool}, noIndex{})
	r := storetest.Record("n", "x", nil)
	if _, err := store.Insert(t.Context(), []record.Record{r}); err != nil {
		t.Fatal(err)
	}
	if found, err := store.Get(t.Context(), "n", []uuid.UUID{r.ID}); err != nil || len(found) != 1 {
		t.Errorf("got %v, %v; want the memory", found, err)
	}
}
