// Package golden keeps ranking under review. A corpus of the repository's own is imported into the real services on each
// store, every query is asked through the gateway, and the ranks of what answers it are compared with the committed
// testdata/ranks.golden, so that a change of ranking shows as a diff, query by query. `make golden` accepts it. What must
// hold whatever the ranking is checked beside that, and is not up for acceptance.
package golden_test

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	namespace = "golden"
	// depth is how many hits are asked for. Ranks beyond it count as not found.
	depth = 20
	// budget is the gateway's maximum: a leg that is left out for lack of time would change a ranking.
	budget = 10 * time.Second
)

// setting is a way to ask.
type setting struct {
	name       string
	legs       map[string]*triskelev1.LegOptions
	order      triskelev1.SortBy
	superseded bool
}

// settings are the gateway's defaults, which ask all legs; each leg alone, in the leg's own order, which the prior of a
// memory's importance would change; and the defaults with superseded memories included.
func settings() []setting {
	legs := gateway.DefaultLegs(nil)
	all := []setting{{name: "default"}}
	for _, alone := range legs {
		options := map[string]*triskelev1.LegOptions{}
		for _, leg := range legs {
			enabled := leg.Name == alone.Name
			options[leg.Name] = &triskelev1.LegOptions{Enabled: &enabled}
		}
		all = append(all, setting{name: alone.Name, legs: options, order: triskelev1.SortBy_SORT_BY_IMPORTANCE})
	}
	return append(all, setting{name: "outdated", superseded: true})
}

// answers are the hits of every query, in the corpus's order, by the name of the setting. With superseded memories only
// those are asked that tell something about them.
type answers map[string][][]*triskelev1.Hit

// TestRanking compares the ranks on both stores with the same file: all legs search in memory, so they are equal.
func TestRanking(t *testing.T) {
	t.Parallel()
	c := load(t)
	var onPostgres, onSQLite string
	t.Run("stores", func(t *testing.T) {
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			pool, err := postgres.Open(t.Context(), url, storetest.Telemetry(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			onPostgres = examine(t, c, standalone.Config{Postgres: url}, &storetest.Fixture{Engine: schema.Postgres, Pool: pool})
		})
		t.Run("sqlite", func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "golden.db")
			db, err := sqlite.Open(path, storetest.Telemetry(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			onSQLite = examine(t, c, standalone.Config{SQLite: path}, &storetest.Fixture{Engine: schema.SQLite, DB: db})
			askBriefly(t, c, path)
		})
	})
	if onPostgres == "" || onSQLite == "" { // the subtests say why
		return
	}
	if *update {
		if err := os.WriteFile(ranks, []byte(onSQLite), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, schema.SQLite, onSQLite)
	compare(t, schema.Postgres, onPostgres)
}

// examine asks every query on a fresh database, which f reads past the services, and returns the report.
func examine(t *testing.T, c *corpus, config standalone.Config, f *storetest.Fixture) string {
	to := start(t, config)
	fill(t, c, to)
	got := answers{}
	for _, s := range settings() {
		for _, q := range c.queries {
			var hits []*triskelev1.Hit
			if !s.superseded || len(q.Absent) > 0 {
				hits = ask(t, to, q, s)
			}
			got[s.name] = append(got[s.name], hits)
		}
	}
	c.checkExact(t, got)
	c.checkGone(t, got)
	c.checkSensitive(t, got, f)
	return c.report(got)
}

// askBriefly compares answers of a process that loads what a question needs with those of one that loads all.
func askBriefly(t *testing.T, c *corpus, path string) {
	t.Helper()
	all, brief := start(t, standalone.Config{SQLite: path}), start(t, standalone.Config{SQLite: path, AskOnly: true})
	for i := 0; i < len(c.queries); i += 20 { // each loads the corpus anew
		q := c.queries[i]
		for _, to := range []*client.Client{brief, all} { // on a busy machine a first search does not wait for the directions to whiten by
			ask(t, to, q, settings()[0])
		}
		got, want := ask(t, brief, q, settings()[0]), ask(t, all, q, settings()[0])
		if !slices.EqualFunc(got, want, func(a, b *triskelev1.Hit) bool { return proto.Equal(a, b) }) {
			t.Errorf("%s: got the hits\n%v, want\n%v", q.ID, got, want)
		}
	}
}

// start runs all services as `triskele up` does.
func start(t *testing.T, config standalone.Config) *client.Client {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if config.Embedder, err = static.Builtin(); err != nil {
		t.Fatal(err)
	}
	config.Gateway = gateway.DefaultConfig()
	system, err := standalone.Start(context.Background(), config, process, storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	return client.New(system.Conn)
}

// fill imports the files one after the other, so that the indexes see the memories in the same order each time, and
// forgets what is to be forgotten.
func fill(t *testing.T, c *corpus, to *client.Client) {
	t.Helper()
	for _, name := range files {
		source := &importer.JSONL{Name: name, Size: -1, DefaultNamespace: namespace, Open: func() (io.ReadCloser, error) {
			return os.Open(filepath.Join("testdata", name))
		}}
		report, err := importer.Run(t.Context(), to.Memories, source, importer.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Problems) > 0 {
			t.Fatalf("%s: %+v", name, report.Problems)
		}
		if err := to.WaitIndexed(t.Context(), namespace, nil); err != nil {
			t.Fatal(err)
		}
	}
	ids := make([]string, len(forgotten))
	for i, key := range forgotten {
		ids[i] = c.memories[key].GetId()
	}
	resp, err := to.Memories.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: namespace, Ids: ids})
	if err != nil || resp.GetForgotten() != int64(len(forgotten)) {
		t.Fatalf("%d of %d forgotten: %v", resp.GetForgotten(), len(forgotten), err)
	}
}

// ask returns the hits of a query. An answer that is not what the legs give at leisure fails the test.
func ask(t *testing.T, to *client.Client, q query, s setting) []*triskelev1.Hit {
	t.Helper()
	limit := int32(depth)
	resp, err := to.Recalls.Recall(t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{namespace}, Query: q.Text, Limit: &limit, Budget: durationpb.New(budget), IdsOnly: true, Explain: true,
		Legs: s.legs, SortBy: s.order, Filter: &triskelev1.Filter{IncludeSuperseded: s.superseded},
	})
	if err != nil {
		t.Fatalf("%s: %v", q.ID, err)
	}
	hurried := slices.ContainsFunc(resp.GetLegs(), func(r *triskelev1.LegReport) bool {
		return r.GetState() == triskelev1.LegState_LEG_STATE_TRUNCATED || r.GetState() == triskelev1.LegState_LEG_STATE_FALLBACK
	})
	if resp.GetDegraded() || hurried {
		t.Fatalf("%s: the answer is not a full one: %s %v", q.ID, resp.GetDegradedReason(), resp.GetLegs())
	}
	return resp.GetHits()
}
