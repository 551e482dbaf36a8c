package lexical_test

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestRebuild makes the blocks of a namespace anew.
func TestRebuild(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	seed(t, f, 700)
	find := func() []leg.Hit {
		return search(t, f, word(0)+" "+word(5)+" "+word(300), func(q *leg.Query) { q.Depth = 100 }).Hits
	}
	before := find()
	fold(t, f, "ns")
	folded := find()
	if _, err := f.Pool.Exec(t.Context(), `SELECT lexical.rebuild('ns')`); err != nil {
		t.Fatal(err)
	}
	after := find()
	if len(before) != 100 || len(folded) != len(before) || len(after) != len(before) {
		t.Fatalf("%d, %d and %d hits, want 100", len(before), len(folded), len(after))
	}
	for i := range before {
		if before[i] != folded[i] || before[i] != after[i] {
			t.Fatalf("hit %d was %+v, after folding %+v, rebuilt %+v", i, before[i], folded[i], after[i])
		}
	}
}

// TestReindexAddsWhatIsMissing indexes memories that have no documents.
func TestReindexAddsWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	c := newCorpus(f)
	for range 250 {
		c.add(t, "one", "a grebe", nil)
	}
	if err := f.DB.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `DELETE FROM lexical_documents`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "grebe", nil)
	if err := searcher(f).Reindex(t.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if result := search(t, f, "grebe", func(q *leg.Query) { q.Depth = 1000 }); len(result.Hits) != 250 {
		t.Errorf("%d memories are found, want 250", len(result.Hits))
	}
}

// TestForgottenWordsAreFolded: one forgotten or changed document makes its namespace due, and then its words are nowhere.
func TestForgottenWordsAreFolded(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	c.add(t, "forgotten", "smelt zanzibar", nil)
	c.add(t, "changed", "smelt quokka", nil)
	fold(t, f, "ns")
	next := func() (due bool) {
		t.Helper()
		if err := f.Pool.QueryRow(t.Context(), "SELECT lexical.fold_next() IS NOT NULL").Scan(&due); err != nil {
			t.Fatal(err)
		}
		return due
	}
	if next() {
		t.Error("a namespace is due with nothing to fold")
	}
	if _, err := f.Memory.Forget(t.Context(), "ns", []uuid.UUID{c.records["forgotten"].ID}); err != nil {
		t.Fatal(err)
	}
	if next() {
		t.Error("a namespace is due after a memory was forgotten, which folds")
	}
	if _, err := f.Memory.Update(t.Context(), "ns", c.records["changed"].ID, 0, func(r *record.Record) error { r.Content = "smelt"; return nil }); err != nil {
		t.Fatal(err)
	}
	if !next() {
		t.Error("a namespace with a changed document is not due")
	}
	for _, word := range []string{"zanzibar", "quokka"} {
		if tables := f.Holding(t, word); len(tables) > 0 {
			t.Errorf("%q is left in %v", word, tables)
		}
	}
	c.expect(t, "smelt", nil, "changed")
}

// hurried is a context whose deadline moves near when the test says so.
type hurried struct {
	context.Context
	near atomic.Bool
}

func (h *hurried) Deadline() (time.Time, bool) {
	if h.near.Load() {
		return time.Now().Add(10 * time.Second), true
	}
	return time.Now().Add(time.Minute), true
}

// TestLate: when most of the time is gone after the rare terms, the frequent ones are left out, and the result says so.
func TestLate(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	var gulls []record.Record
	for range 9000 { // more than the first round reads
		gulls = append(gulls, storetest.Record("ns", "gull", nil))
	}
	f.Insert(t, gulls...)
	c := newCorpus(f)
	c.add(t, "rare", "a smew", nil)
	fold(t, f, "ns")
	for _, hurry := range []bool{false, true} {
		ctx := &hurried{Context: t.Context()}
		searcher := traced(t, f, tracer{func(_ context.Context, _ *pgx.Conn, sql string, _ []any) {
			if strings.Contains(sql, "b.data") {
				ctx.near.Store(hurry)
			}
		}})
		result, err := searcher.Search(ctx, leg.Query{Namespace: "ns", Text: "gull smew", Depth: 10})
		if err != nil {
			t.Fatal(err)
		}
		cut := result.State == triskelev1.LegState_LEG_STATE_TRUNCATED
		if c.names[result.Hits[0].ID] != "rare" || cut != hurry || cut != (len(result.Hits) == 1) || cut != strings.Contains(result.Reason, "time ran out") {
			t.Errorf("hurried %t: %d hits, %v, %q", hurry, len(result.Hits), result.State, result.Reason)
		}
	}
}

// TestPostingsBudget: the most frequent terms are left out, and the result says so.
func TestPostingsBudget(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	c := newCorpus(f)
	for range 60 {
		c.add(t, "frequent", "common gull", nil)
	}
	c.add(t, "rare", "a smew", nil)
	fold(t, f, "ns")
	find := func(budget int64) leg.Result {
		result, err := lexical.NewPostgres(f.Pool, lexical.Config{MaxPostings: budget}).Search(t.Context(), leg.Query{Namespace: "ns", Text: "gull smew", Depth: 100})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := find(60); len(result.Hits) != 1 || result.State != triskelev1.LegState_LEG_STATE_TRUNCATED || result.Reason == "" {
		t.Errorf("within 60 postings the result is %+v, want the rare memory, TRUNCATED", result)
	}
	if result := find(61); len(result.Hits) != 61 || result.State == triskelev1.LegState_LEG_STATE_TRUNCATED {
		t.Errorf("within 61 postings there are %d hits and the state %v, want all", len(result.Hits), result.State)
	}
}

// TestPruning has a query whose rare terms settle the best before its frequent ones are read.
func TestPruning(t *testing.T) {
	t.Parallel()
	f := storetest.Postgres(t)
	seed(t, f, 4000)
	fold(t, f, "ns")
	if _, err := f.Pool.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		text := "w0o w1o w2o w3o w4o w5o w6o " + word(40+i*10) + " " + word(400+i*20)
		few := search(t, f, text, func(q *leg.Query) { q.Depth = 5 }).Hits
		all := search(t, f, text, func(q *leg.Query) {
			q.Depth = 5
			q.Filter.Metadata = map[string]any{}
			q.Filter.CreatedFrom = few[4].CreatedAt.AddDate(-1, 0, 0)
		}).Hits // a filter reads all
		for i := range few {
			if few[i] != all[i] {
				t.Errorf("hit %d is %+v, reading all it is %+v", i, few[i], all[i])
			}
		}
	}
}
