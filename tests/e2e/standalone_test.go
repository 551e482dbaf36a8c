package e2e_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/sqlite"
)

// one is everything in one process over a SQLite file.
type one struct {
	*system
	file string
}

func startOne(t *testing.T, more setup) *one {
	t.Helper()
	return startOneOf(t, programs, more)
}

// startOneOf starts the program in a folder.
func startOneOf(t *testing.T, programs string, more setup) *one {
	t.Helper()
	tel, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := &one{&system{t: t, programs: programs, env: more.env, processes: map[string]*process{}, tel: tel.Service("client"), options: more.dial}, filepath.Join(t.TempDir(), "test.db")}
	address := freeAddress(t)
	o.processes["triskele"] = &process{name: "triskele", program: "triskele", address: address, args: append([]string{"up", "--listen", address, "--sqlite", o.file, "--log-level", "debug"}, more.args["triskele"]...)}
	o.run("triskele")
	o.awaitServing("triskele")
	if o.conn, err = o.dial("triskele"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.conn.Close() })
	o.recall, o.memory = triskelev1.NewRecallServiceClient(o.conn), triskelev1.NewMemoryServiceClient(o.conn)
	return o
}

func (o *one) clients() (triskelev1.RecallServiceClient, triskelev1.MemoryServiceClient) {
	return o.recall, o.memory
}

func (o *one) crash(*rand.Rand) {
	o.crashing.Lock()
	defer o.crashing.Unlock()
	o.signal("triskele", syscall.SIGKILL)
	o.run("triskele")
	o.awaitServing("triskele")
}

// read opens the file beside the process that uses it.
func (o *one) read(t *testing.T, fn func(*sql.DB)) {
	t.Helper()
	db, err := sqlite.Open(o.file, o.tel)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	fn(db.Read)
}

// tables gives SQLite's tables the names that PostgreSQL's have.
func (o *one) tables(t *testing.T) map[string][]row {
	t.Helper()
	out := map[string][]row{}
	o.read(t, func(db *sql.DB) {
		names, err := db.QueryContext(t.Context(), `
			SELECT '', m.name, 0, (SELECT json_group_array(c.name) FROM pragma_table_info(m.name) c)
			FROM sqlite_master m WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = names.Close() }()
		for _, r := range textRows(t, names) {
			var columns []string
			if err := json.Unmarshal([]byte(r.text), &columns); err != nil {
				t.Fatal(err)
			}
			all := make([]string, len(columns))
			for i, column := range columns {
				all[i] = "quote(t." + column + ")"
			}
			rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s, hex(%s), %s, %s FROM %s t", columnOr(columns, "namespace", "''"),
				columnOr(columns, "memory_id", "''"), columnOr(columns, "revision", "0"), strings.Join(all, " || ' ' || "), r.memory))
			if err != nil {
				t.Fatal(err)
			}
			table := "memory." + r.memory
			for _, track := range []string{"lexical", "dense", "graph"} {
				if rest, ok := strings.CutPrefix(r.memory, track+"_"); ok {
					table = track + "." + rest
				}
			}
			for _, r := range textRows(t, rows) {
				if r.memory != "" {
					r.memory = uuid.MustParse(r.memory).String()
				}
				out[table] = append(out[table], r)
			}
			_ = rows.Close()
		}
	})
	if len(out) < 8 {
		t.Fatalf("only %d tables: the check is blind", len(out))
	}
	return out
}

func (o *one) indexed(t *testing.T, words []string) []string { return wordsLeft(t, o.fixture(), words) }
