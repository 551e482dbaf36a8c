package memory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// names joins the titles of records.
func names(records []record.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, r.Title)
	}
	return strings.Join(out, " ")
}

func TestSurroundings(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		of := map[string]record.Record{}
		add := func(title, thread string, position int64, edit func(*record.Record)) {
			r := storetest.Record("n", title, func(r *record.Record) {
				r.Title, r.Thread, r.CreatedAt = title, thread, time.Date(2026, 1, 1, 0, 0, len(of), 0, time.UTC)
				if position >= 0 {
					r.Position = &position
				}
				if edit != nil {
					edit(r)
				}
			})
			of[title] = r
			f.Insert(t, r)
		}
		add("late", "talk", -1, nil) // without a position: behind all others
		add("later", "talk", -1, nil)
		add("five", "talk", 5, nil)
		add("one", "talk", 1, func(r *record.Record) { r.Tags = []string{"a"} })
		add("secret", "talk", 2, func(r *record.Record) { r.Sensitive = true })
		add("two", "talk", 2, nil)
		add("twin", "talk", 2, nil)
		add("expired", "talk", 3, func(r *record.Record) { r.ExpiresAt = time.Now().Add(-time.Hour) })
		add("elsewhere", "walk", 4, nil)
		add("alone", "", -1, nil)
		f.Insert(t, storetest.Record("m", "theirs", func(r *record.Record) { r.Thread = "talk" }))
		for _, c := range []struct {
			of            string
			n             int
			filter        record.Filter
			before, after string
		}{
			{"two", 2, record.Filter{}, "one", "twin five"},
			{"twin", 1, record.Filter{}, "two", "five"},
			{"five", 10, record.Filter{}, "one two twin", "late later"},
			{"late", 2, record.Filter{}, "twin five", "later"},
			{"twin", 10, record.Filter{TagsAny: []string{"a"}}, "one", ""},
			{"secret", 10, record.Filter{}, "one", "two twin five late later"},
			{"elsewhere", 10, record.Filter{}, "", ""},
			{"alone", 10, record.Filter{}, "", ""},
		} {
			got, err := f.Memory.Surroundings(t.Context(), "n", []record.Record{of["alone"], of[c.of]}, c.n, c.filter)
			if err != nil || len(got) != 2 {
				t.Fatalf("%s: got %d, %v, want two", c.of, len(got), err)
			}
			if before, after := names(got[1].Before), names(got[1].After); before != c.before || after != c.after {
				t.Errorf("%d beside %s: got %q and %q, want %q and %q", c.n, c.of, before, after, c.before, c.after)
			}
		}
		if _, _, err := f.Memory.Supersede(t.Context(), of["two"].ID, 0, storetest.Record("n", "better", func(r *record.Record) { r.Title = "better" })); err != nil {
			t.Fatal(err)
		}
		got, err := f.Memory.Surroundings(t.Context(), "n", []record.Record{of["one"]}, 2, record.Filter{})
		if err != nil || names(got[0].After) != "twin better" {
			t.Errorf("a superseded neighbour: got %+v, %v, want its replacement", got, err)
		}

		resp, err := f.Client(t).Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{of["alone"].ID.String(), of["five"].ID.String()}, Surroundings: 1})
		if err != nil || len(resp.GetSurroundings()) != 2 || len(resp.GetSurroundings()[0].GetBefore()) != 0 || resp.GetSurroundings()[1].GetAfter()[0].GetTitle() != "late" {
			t.Errorf("get: %v, %v", resp.GetSurroundings(), err)
		}
		if _, err := f.Client(t).Get(t.Context(), &triskelev1.GetRequest{Namespace: "n", Ids: []string{of["five"].ID.String()}, Surroundings: 11}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("too many: got %v", err)
		}
	})
}

// TestSurroundingsUseTheIndex asks in a thread of many memories how the database looks up neighbours.
func TestSurroundingsUseTheIndex(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	for _, which := range memory.Nearest(f.Store().DB()) {
		var plan []string
		rows, err := f.DB.Read.QueryContext(t.Context(), `EXPLAIN QUERY PLAN SELECT id FROM memories m WHERE namespace = $1 AND thread = $2 AND thread <> '' AND `+
			fmt.Sprintf(which, "<", "DESC")+` LIMIT $6`, "n", "t", 1, 1, []byte{1}, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(plan, func(s string) bool {
			return strings.Contains(s, "memories_by_thread") && (strings.Contains(s, "<expr><?") || strings.Contains(s, "(created_at,id)<(?,?)"))
		}) || strings.Contains(fmt.Sprint(plan), "TEMP B-TREE") {
			t.Errorf("got the plan %q, want one that begins to read memories_by_thread beside the memory, in its order", plan)
		}
	}
}
