package lexical_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// byRank asks for the scorer ts_rank.
func byRank(q *leg.Query) { q.Scorer = triskelev1.Scorer_SCORER_TS_RANK }

// byRankTo asks for ts_rank and a depth.
func byRankTo(depth int) func(*leg.Query) {
	return func(q *leg.Query) { byRank(q); q.Depth = depth }
}

func TestBroadening(t *testing.T) {
	t.Parallel()
	c := newCorpus(storetest.Postgres(t))
	// Some of the terms, many times: by rank alone it would come first.
	c.add(t, "some", strings.Repeat("merlin hobby ", 30), nil)
	c.add(t, "all", "merlin and many other words until at last there is a hobby and a harrier", nil)
	c.add(t, "one", "a harrier", nil)
	result := c.expect(t, "merlin hobby harrier", byRank, "all", "some", "one")
	if want := "all terms matched 1 memory, broadened to any term"; result.Reason != want {
		t.Errorf("the reason is %q, want %q", result.Reason, want)
	}
	if result.State != triskelev1.LegState_LEG_STATE_UNSPECIFIED && result.State != triskelev1.LegState_LEG_STATE_OK {
		t.Errorf("the state is %v, want OK", result.State)
	}
	// Enough with all terms: nothing else is looked for.
	if result := c.expect(t, "merlin hobby harrier", byRankTo(1), "all"); result.Reason != "" {
		t.Errorf("the reason is %q, want none", result.Reason)
	}
	c.expect(t, "merlin hobby harrier", byRankTo(2), "all", "some")
}

func TestBroadeningGate(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	c.add(t, "weak", "note", func(r *record.Record) { r.Category = "twite" }) // 0.061 / terms
	c.add(t, "strong", "twite", nil)                                          // 0.61 / terms
	query := "twite linnet siskin serin redpoll crossbill bullfinch hawfinch"
	c.expect(t, query, byRank, "strong")
	open, err := lexical.New(f.Store(), f.Images(t), lexical.Config{}).Search(t.Context(), leg.Query{Namespace: "ns", Text: query, Depth: 10, Scorer: triskelev1.Scorer_SCORER_TS_RANK})
	if err != nil {
		t.Fatal(err)
	}
	if len(open.Hits) != 2 {
		t.Errorf("without a gate %d hits, want 2", len(open.Hits))
	}
	c.expect(t, "twite", byRank, "strong", "weak") // has all terms: no gate
}

// TestMinScoreIsNoBackDoor: what has all terms but scores too low must not return among those with some.
func TestMinScoreIsNoBackDoor(t *testing.T) {
	t.Parallel()
	c := newCorpus(storetest.Postgres(t))
	c.add(t, "all", "ruff "+strings.Repeat("filler ", 500)+" reeve", nil)
	all := c.expect(t, "ruff reeve", byRank, "all")
	above := all.Hits[0].Score + 1e-6
	c.expect(t, "ruff reeve", func(q *leg.Query) { byRank(q); q.MinScore = &above })
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// tracer calls before with each statement, also of a batch, before it is sent.
type tracer struct {
	before func(ctx context.Context, conn *pgx.Conn, sql string, args []any)
}

func (tr tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	tr.before(ctx, conn, data.SQL, data.Args)
	return ctx
}

func (tr tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		tr.before(ctx, conn, q.SQL, q.Arguments)
	}
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// traced returns the leg with a tracer, logged in as the service, which row-level security applies to.
func traced(t *testing.T, f *storetest.Fixture, tr tracer) *lexical.Leg {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.Login(t, f.Pool.Config().ConnString(), "lexical"))
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = f.Pool.Config().AfterConnect
	config.ConnConfig.Tracer = tr
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return lexical.New(sqldb.Store{Pool: pool}, f.Images(t), lexical.DefaultConfig())
}

// TestTruncated ends the time between the two parts of a search.
func TestTruncated(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	c.add(t, "all", "sanderling and dunlin", nil)
	c.add(t, "some", "dunlin", nil)
	search := func(text string) (leg.Result, error) {
		ctx := expiring{t.Context(), make(chan struct{})}
		searcher := traced(t, f, tracer{func(_ context.Context, _ *pgx.Conn, sql string, _ []any) {
			if strings.Contains(sql, "NOT tsv @@") {
				close(ctx.done)
			}
		}})
		return searcher.Search(ctx, leg.Query{Namespace: "ns", Text: text, Depth: 10, Scorer: triskelev1.Scorer_SCORER_TS_RANK})
	}
	result, err := search("sanderling dunlin")
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Hits) != 1 || c.names[result.Hits[0].ID] != "all" || result.State != triskelev1.LegState_LEG_STATE_TRUNCATED || result.Reason == "" {
		t.Errorf("the result is %+v, want the memory with all terms, TRUNCATED", result)
	}
	if _, err := search("sanderling turnstone"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with nothing found yet the error is %v, want context.DeadlineExceeded", err)
	}
}

// TestPlans has the server explain every statement of every shape of search by ts_rank, from rare words to some that all of the
// corpus has, with and without statistics: none reads a table from end to end.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	seed(t, f, 2000)
	titled := storetest.Record("ns", "a text of its own", func(r *record.Record) { r.Title = word(1) })
	f.Insert(t, titled)
	plans := map[string]int{}
	tables := []string{"lexical.documents", "memory.memories"}
	searcher := traced(t, f, tracer{func(ctx context.Context, conn *pgx.Conn, sql string, args []any) {
		if strings.HasPrefix(sql, "EXPLAIN") || !slices.ContainsFunc(tables, func(table string) bool { return strings.Contains(sql, table) }) {
			return
		}
		rows, err := conn.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			t.Error(err)
			return
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Error(err)
		}
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan") {
			t.Errorf("a sequential scan:\n%s", plan)
		}
		for _, table := range tables {
			if strings.Contains(sql, table) {
				plans[table]++
			}
		}
	}})
	least := 1.
	shapes := map[string]func(*leg.Query){
		"plain":    func(*leg.Query) {},
		"filtered": func(q *leg.Query) { q.Filter = record.Filter{TagsAny: []string{"x"}} },
		"all filters": func(q *leg.Query) {
			q.Filter = record.Filter{
				TagsAny: []string{"x"}, TagsAll: []string{"y"}, Categories: []string{"z"}, Metadata: map[string]any{"a": 1.}, CreatedFrom: titled.CreatedAt.AddDate(-1, 0, 0),
				CreatedBefore: titled.CreatedAt, IncludeSuperseded: true,
			}
		},
		"exact":       func(q *leg.Query) { q.MarkExact = true },
		"least score": func(q *leg.Query) { q.MinScore = &least },
	}
	for _, statistics := range []bool{false, true} {
		if statistics {
			if _, err := f.Pool.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{
			word(0), word(1900), word(1), word(0) + " " + word(1) + " unfindable", word(3) + " " + word(700), `"` + word(0) + " " + word(1) + `" ` + word(5),
			word(2) + " w19", strings.Repeat("many words ", 900) + word(2),
		} {
			for name, shape := range shapes {
				q := leg.Query{Namespace: "ns", Text: text, Depth: 1000}
				byRank(&q)
				shape(&q)
				times := 1
				if name == "filtered" {
					times = 7 // the server may change to a generic plan after the fifth
				}
				for range times {
					if _, err := searcher.Search(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
			}
			q := leg.Query{Namespace: "ns", Text: text, Scorer: triskelev1.Scorer_SCORER_TS_RANK}
			if _, _, err := searcher.Scores(t.Context(), q, []uuid.UUID{titled.ID, uuid.New()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, table := range tables {
		if plans[table] < 30 {
			t.Errorf("only %d plans of statements on %s were seen", plans[table], table)
		}
	}
}

// TestColdNamespace: a namespace that does not fit into memory is searched by ts_rank, and the result says so.
func TestColdNamespace(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	c.add(t, "first", "a merlin", nil)
	c.add(t, "second", "merlin hobby", func(r *record.Record) { r.Title = "Hobby" })
	config := replica.DefaultConfig()
	config.Memory = 0
	cold := lexical.New(f.Store(), f.ImagesWith(t, config), lexical.DefaultConfig())
	result, err := cold.Search(t.Context(), leg.Query{Namespace: "ns", Text: "hobby", Depth: 10, MarkExact: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Hits) != 1 || !result.Hits[0].Exact || result.ScoreKind != triskelev1.ScoreKind_SCORE_KIND_TS_RANK {
		t.Errorf("got %+v, want the second memory as an exact match by ts_rank", result)
	}
	if result.State != triskelev1.LegState_LEG_STATE_FALLBACK || !strings.Contains(result.Reason, "too large") {
		t.Errorf("got the state %v and the reason %q, want FALLBACK because it is too large", result.State, result.Reason)
	}
	if scores, kind, err := cold.Scores(t.Context(), leg.Query{Namespace: "ns", Text: "hobby"}, []uuid.UUID{result.Hits[0].ID}); err != nil ||
		len(scores) != 1 || scores[0].Score != result.Hits[0].Score || kind != result.ScoreKind {
		t.Errorf("got the scores %v of kind %v and %v, want the search's", scores, kind, err)
	}
}
