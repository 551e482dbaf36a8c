package e2e_test

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/schema"
	"github.com/triskele/triskele/services/sqlite"
	"github.com/triskele/triskele/services/storetest"
)

// refuse has PostgreSQL refuse new rows of a table. It quotes them in the details of its error.
func (f *five) refuse(table string) {
	f.t.Helper()
	if _, err := f.sql().Exec(f.t.Context(), "ALTER TABLE "+table+" ADD CONSTRAINT refused CHECK (false) NOT VALID"); err != nil {
		f.t.Fatal(err)
	}
}

// refuse has SQLite refuse new rows of a table.
func (o *one) refuse(table string) {
	o.t.Helper()
	schema, name, _ := strings.Cut(table, ".")
	if schema != "memory" {
		name = schema + "_" + name
	}
	if _, err := o.fixture().DB.Write.ExecContext(o.t.Context(), fmt.Sprintf("CREATE TRIGGER refused_%[1]s BEFORE INSERT ON %[1]s BEGIN SELECT RAISE(ABORT, 'refused'); END", name)); err != nil {
		o.t.Fatal(err)
	}
}

// fixture opens the database behind the services' backs, as its owner.
func (f *five) fixture() *storetest.Fixture {
	f.t.Helper()
	pool, err := pgxpool.New(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(pool.Close)
	return &storetest.Fixture{Engine: schema.Postgres, Pool: pool}
}

// fixture opens the file beside the process that uses it.
func (o *one) fixture() *storetest.Fixture {
	o.t.Helper()
	db, err := sqlite.Open(o.file, o.tel)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = db.Close() })
	return &storetest.Fixture{Engine: schema.SQLite, DB: db}
}
