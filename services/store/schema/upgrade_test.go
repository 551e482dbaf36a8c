package schema_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// firstTerms has the term "kestrel" once, in the first format of the lexical index.
var firstTerms = []byte("\x01" + strings.Repeat("\x00", 16) + "\x07kestrel\x00")

// remember stores a memory by the statements of the first release, which later steps have to put up with.
func (d database) remember(db *sql.DB, r record.Record) {
	d.t.Helper()
	id, table, at := any(r.ID[:]), "", any(r.CreatedAt.UnixMicro())
	list := `json_array('Kestrel')`
	if d.engine == schema.Postgres {
		id, table, at, list = r.ID.String(), "memory.", r.CreatedAt, `ARRAY['Kestrel']`
	}
	exec(d.t, db, `INSERT INTO `+table+`namespaces (name) VALUES ($1) ON CONFLICT DO NOTHING`, r.Namespace)
	exec(d.t, db, `INSERT INTO `+table+`memories (namespace, id, content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at, revision)
		VALUES ($1, $2, $3, 'Kestrel', `+list+`, `+list+`, 'note', '{"n": 1}', 0.75, false, 'test', $4, $4, 1)`, r.Namespace, id, r.Content, at)
	if d.engine == schema.Postgres {
		exec(d.t, db, `INSERT INTO memory.index_queue (namespace, index_name, memory_id, revision) VALUES ($1, 'dense', $2, 1), ($1, 'graph', $2, 1)`, r.Namespace, id)
		exec(d.t, db, `INSERT INTO lexical.documents (namespace, memory_id, tsv, terms) VALUES ($1, $2, setweight(to_tsvector('english', $3), 'A'), $4)`, r.Namespace, id, r.Content, firstTerms)
		return
	}
	exec(d.t, db, `INSERT INTO index_queue (namespace, index_name, memory_id, revision, enqueued_at, not_before) VALUES ($1, 'dense', $2, 1, $3, $3), ($1, 'graph', $2, 1, $3, $3)`, r.Namespace, id, at)
	exec(d.t, db, `INSERT INTO lexical_documents (namespace, memory_id, terms) VALUES ($1, $2, $3)`, r.Namespace, id, firstTerms)
}

// steps are the numbers that any track has, in order.
func steps(t *testing.T) []int64 {
	t.Helper()
	names, err := fs.Glob(schema.Files, "*/*/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	numbers := make([]int64, len(names))
	for i, name := range names {
		if numbers[i], err = strconv.ParseInt(path.Base(name)[:3], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// TestUpFromEveryStep stores a memory at each step as the first release did, migrates, and finds it by each leg.
func TestUpFromEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps(t) {
		t.Run(fmt.Sprintf("from %03d", step), func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, d database) {
				db := d.open()
				if err := schema.UpTo(t.Context(), db, d.engine, step); err != nil {
					t.Fatal(err)
				}
				want := storetest.Record("upgraded/project", "Kestrel keeps its backups on heron.", nil)
				d.remember(db, want)
				if d.engine == schema.SQLite {
					_ = db.Close()
				}
				d.wantFound(want)
			})
		})
	}
}

// wantFound migrates the database and looks for the memory in every way there is.
func (d database) wantFound(want record.Record) {
	t := d.t
	url, file := d.name, ""
	if d.engine == schema.SQLite {
		url, file = "", d.name
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := backend.Open(ctx, url, file, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, err := b.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := b.Memory().Get(ctx, want.Namespace, []uuid.UUID{want.ID})
	if err != nil || len(got) != 1 {
		t.Fatalf("get: %v, %v", got, err)
	}
	if r := got[0]; r.Content != want.Content || r.Title != "Kestrel" || len(r.Tags) != 1 || r.Category != "note" || r.Importance != 0.75 || r.Metadata["n"] != 1.0 || !r.CreatedAt.Equal(want.CreatedAt) || r.Revision != 1 {
		t.Errorf("stored %+v", r)
	}
	images := b.Images(ctx, storetest.Strict(), storetest.Log())
	dense, err := b.Dense(ctx, images, embed.NewHashed())
	if err != nil {
		t.Fatal(err)
	}
	linked := b.Graph(images, graph.Config{})
	working, stop := context.WithCancel(ctx)
	defer stop()
	go b.Worker("dense", dense, storetest.Log()).Run(working)
	go b.Worker("graph", linked, storetest.Log()).Run(working)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for name, searcher := range map[string]leg.Searcher{"lexical": b.Lexical(images, lexical.DefaultConfig()), "dense": dense, "graph": linked} {
		for {
			status, err := searcher.Status(ctx, want.Namespace)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if status.Pending == 0 {
				break
			}
			<-ticker.C
		}
		result, err := searcher.Search(ctx, leg.Query{Namespace: want.Namespace, Text: "backups of Kestrel", Depth: 10})
		if err != nil || len(result.Hits) != 1 || result.Hits[0].ID != want.ID || result.State == triskelev1.LegState_LEG_STATE_TRUNCATED {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}
