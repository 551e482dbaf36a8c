package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestForgottenIsGone has every table know of memories, removes them in each way there is, and reads all tables, of
// whatever service, for what is left of their texts and ids. It asks the database which tables there are, so one that is
// added later is read as well, and fails if a table was empty: then it has shown nothing about it.
func TestForgottenIsGone(t *testing.T) {
	t.Parallel()
	models := newScript(t)
	flags := append(curatedBy(models), "--sweep-after", "0s", "--sweep-every", "100ms")
	for name, launch := range map[string]func(t *testing.T) vault{
		"postgres": func(t *testing.T) vault {
			return startFive(t, setup{args: map[string][]string{"memory": flags}})
		},
		"sqlite": func(t *testing.T) vault {
			return startOne(t, setup{args: map[string][]string{"triskele": flags}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := launch(t)
			_, memory := v.clients()
			ways := []struct {
				name, namespace string
				remove          func(id string) error
				// outlived says that other memories outlive this one. They may name it as their successor or as what they
				// are linked to; its id is all that they keep.
				outlived bool
			}{
				{"forgotten", "forget", func(id string) error {
					_, err := memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "forget", Ids: []string{id}})
					return err
				}, true},
				{"swept", "sweep", func(id string) error {
					_, err := memory.Update(t.Context(), &triskelev1.UpdateRequest{
						Namespace: "sweep", Id: id, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"expires_at"}},
						Memory: &triskelev1.Memory{ExpiresAt: timestamppb.New(time.Now().Add(-time.Second))},
					})
					return err
				}, true},
				{"dropped", "drop/all", func(string) error {
					_, err := memory.DeleteNamespace(t.Context(), &triskelev1.DeleteNamespaceRequest{Namespace: "drop/all"})
					return err
				}, false},
			}
			ids, tried := map[string]string{}, map[string]bool{}
			for _, way := range ways {
				ids[way.name] = inhabit(t, v, models, way.namespace, "wombat"+way.name, tried)
			}
			v.refuse(v.mentions())
			for _, way := range ways {
				await(t, v, way.namespace, ids[way.name], "wombat"+way.name)
			}
			try(t, v, tried)
			for table, had := range tried {
				if !had && untried[table] == "" {
					t.Errorf("%s was empty: what it keeps of a memory is not tried", table)
				}
			}
			f := v.fixture()
			for _, way := range ways {
				word, id := "wombat"+way.name, ids[way.name]
				if before := f.Holding(t, id); len(before) < 7 {
					t.Errorf("%s: only %q know of the memory", way.name, before)
				}
				if before := f.Holding(t, word); len(before) < 3 {
					t.Errorf("%s: only %q have its text", way.name, before)
				}
				if err := way.remove(id); err != nil {
					t.Fatal(err)
				}
				// The log of changes keeps ids for minutes, so that copies in memory learn what was removed. Nothing else may.
				left := func() (left []string) {
					for _, field := range []string{"", "key", "value", "nested", "title", "content", "keyword", "tag", "category", "source", "idempotency", "relation", "again"} {
						for _, table := range f.Holding(t, word+field) {
							left = append(left, word+field+" in "+table)
						}
					}
					for _, table := range f.Holding(t, id) {
						if of := strings.TrimPrefix(table, "memory."); of != "log" && (!way.outlived || !strings.HasPrefix(of, "memories")) {
							left = append(left, id+" in "+table)
						}
					}
					return left
				}
				if way.name == "swept" { // by and by
					v.eventually("it is swept", func() bool { return len(left()) == 0 })
				}
				if now := left(); len(now) > 0 {
					t.Errorf("%s: there is left %q", way.name, now)
				}
			}
		})
	}
}

// try notes which tables there are, and whether they have ever had rows.
func try(t *testing.T, v vault, tried map[string]bool) {
	t.Helper()
	for table, rows := range v.tables(t) {
		tried[table] = tried[table] || len(rows) > 0
	}
}

// untried are tables that may be empty all the time.
var untried = map[string]string{
	"graph.facts":       "nothing extracts facts here",
	"graph.extractions": "filled where a model reads memories: the extractor's tests see rows go with them",
	"lexical.settings":  "of namespaces, and only where an operator has changed them",
}

// vault is a deployment whose database is looked into.
type vault interface {
	deployment
	fixture() *storetest.Fixture
	refuse(table string)
	eventually(what string, condition func() bool)
	awaitIndexes(namespace string)
	remember(m *triskelev1.Memory) *triskelev1.Memory
}

// inhabit stores a memory with a word in every text, has everything derived from it that can be, notes what tables have
// rows, and returns the memory's id.
func inhabit(t *testing.T, v vault, models *script, namespace, word string, tried map[string]bool) string {
	t.Helper()
	_, memory := v.clients()
	decided := func(id string) func() bool {
		return func() bool {
			resp, err := memory.ListDecisions(t.Context(), &triskelev1.ListDecisionsRequest{Namespace: namespace, MemoryId: id})
			return err == nil && len(resp.GetDecisions()) > 0
		}
	}
	models.set(func(s *script) { s.judge = func(int) (string, int) { return "add", 0 } })
	older := v.remember(&triskelev1.Memory{Namespace: namespace, Content: "The vault of Kestrel is below the mill."})
	v.eventually("the older one is judged", decided(older.GetId()))
	replaced := v.remember(&triskelev1.Memory{Namespace: namespace, Content: "Merlin roosts in Oslo."})
	v.eventually("the other one is judged", decided(replaced.GetId()))
	models.set(func(s *script) { s.judge = func(int) (string, int) { return "update", 1 } })
	m := marked(word, false)
	m.Namespace, m.Links[0].Target = namespace, older.GetId()
	resp, err := memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: replaced.GetId(), Replacement: m})
	if err != nil {
		t.Fatal(err)
	}
	id := resp.GetMemory().GetId()
	v.eventually("it is judged", decided(id))
	v.remember(&triskelev1.Memory{Namespace: namespace, Content: "Somebody else's note.", Links: []*triskelev1.Link{{Target: id, Relation: "see"}}})
	v.awaitIndexes(namespace)
	try(t, v, tried)
	return id
}

// await changes a memory whose index cannot follow, and waits until the queue keeps it.
func await(t *testing.T, v vault, namespace, id, word string) {
	t.Helper()
	_, memory := v.clients()
	if _, err := memory.Update(t.Context(), &triskelev1.UpdateRequest{
		Namespace: namespace, Id: id, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content", "tags"}},
		Memory: &triskelev1.Memory{
			Content: fmt.Sprintf("The vault of Kestrel opens with %[1]scontent, %[1]sagain.", word),
			Tags:    []string{word + "tag", "latch"}, // a new mention: those that stay are not written again
		},
	}); err != nil {
		t.Fatal(err)
	}
	v.eventually("its index has failed", func() bool {
		return slices.ContainsFunc(v.tables(t)["memory.index_queue"], func(r row) bool { return r.memory == id && strings.Contains(r.text, "error") })
	})
}
