package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var (
	historyOps  = flag.Int("history.ops", 200, "operations on each store in TestHistory")
	historySeed = flag.Uint64("history.seed", 1, "what TestHistory's operations are drawn from")
)

// historians is how many clients act at once. Each owns the memories it made, so it knows what each of them must be.
const historians = 4

// deployment is what a history happens to.
type deployment interface {
	clients() (triskelev1.RecallServiceClient, triskelev1.MemoryServiceClient)
	// crash kills a process, or all there are, and starts it again.
	crash(rng *rand.Rand)
	// tables returns the rows of every table, each as text that shows every column.
	tables(t *testing.T) map[string][]row
	// mentions is the table of what memories mention.
	mentions() string
	// indexed returns those of the words that the word index knows.
	indexed(t *testing.T, words []string) []string
}

// TestHistory has several clients store, change, supersede, forget and hide memories, and rename, delete and make anew namespaces of
// their own, while processes are killed and come back, and keeps a model of what must be there. At the end the store, every index and every answer must be as the model
// says: nothing lost, nothing twice, nothing left behind.
func TestHistory(t *testing.T) {
	t.Parallel() // much of it is waiting for the leases of the killed
	agreeable := newScript(t)
	curator := []string{"--curator-url", agreeable.URL + "/v1", "--curator-model", "scripted", "--curator-per-minute", "60000"}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		args := map[string][]string{"memory": curator}
		for _, leg := range legs { // a recall is to know of what was acknowledged before, whether its caller has a token of it or not
			args[leg] = []string{"--search-max-age", "0s"}
		}
		testHistory(t, startFive(t, setup{args: args}))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testHistory(t, startOne(t, setup{args: map[string][]string{"triskele": curator}}))
	})
}

func testHistory(t *testing.T, d deployment) {
	t.Logf("%d operations from seed %d", *historyOps, *historySeed)
	workers := make([]*historian, historians)
	for i := range workers {
		workers[i] = &historian{t: t, d: d, number: i, rng: rand.New(rand.NewPCG(*historySeed, uint64(i)))}
	}
	const rounds = 2           // of acting and checking
	tried := map[string]bool{} // tables that had rows
	for round := range rounds {
		var running sync.WaitGroup
		for _, w := range workers {
			running.Go(func() {
				each := *historyOps / rounds / historians
				for i := range each {
					if t.Failed() {
						return
					}
					w.step()
					if w.number == 0 && each >= 1000 && (i+1)%250 == 0 {
						t.Logf("round %d: about %d of %d operations", round+1, (i+1)*historians, each*historians)
					}
				}
			})
		}
		running.Wait()
		if t.Failed() {
			return
		}
		settle(t, d, workers)
		checkStore(t, d, workers)
		checkDerived(t, d, workers, tried)
		t.Logf("round %d: %s", round+1, tally(workers))
	}
	for _, table := range []string{"lexical.documents", "dense.vectors", "graph.concepts", d.mentions(), "memory.curation_decisions"} {
		if !tried[table] {
			t.Errorf("%s was empty in each round: what is derived there has not been tried", table)
		}
	}
}

func tally(workers []*historian) string {
	done := map[string]int{}
	for _, w := range workers {
		for name, n := range w.done {
			done[name] += n
		}
	}
	parts := make([]string, 0, len(done))
	for _, name := range slices.Sorted(maps.Keys(done)) {
		parts = append(parts, fmt.Sprintf("%d %s", done[name], name))
	}
	return strings.Join(parts, ", ")
}

// note is what a memory must be.
type note struct {
	id, namespace string
	word          string   // in no other memory, but for its twin in the other namespace
	former        []string // words that it had
	content       string
	link          string // the id of another note of the same client and namespace
	sensitive     bool
	expired       bool
	supersededBy  string
	revision      int64
	forgotten     bool
}

func (n *note) live() bool { return !n.expired && !n.forgotten && n.supersededBy == "" }

// historian is a client that acts and keeps a model.
type historian struct {
	t      *testing.T
	d      deployment
	number int
	rng    *rand.Rand
	notes  []*note
	own    string // the name of a namespace that nobody else writes to, or ""
	made   bool   // whether it exists
	serial int
	done   map[string]int
}

// sharedNamespaces are those that all clients write to.
var sharedNamespaces = []string{"history/a", "history/b"}

// namespace draws any but the given one. A namespace of the client's own may have a name that it had before, or none has had yet.
func (h *historian) namespace(not string) string {
	if h.own == "" {
		h.own = h.ownName("")
	}
	others := slices.DeleteFunc(append([]string{h.own}, sharedNamespaces...), func(name string) bool { return name == not })
	return others[h.rng.IntN(len(others))]
}

// ownNames is how many names a client has for a namespace of its own. The fewer, the more often one is used again.
const ownNames = 3

func (h *historian) ownNumbered(i int) string { return fmt.Sprintf("history/own%d/%d", h.number, i) }

func (h *historian) ownName(not string) string {
	for {
		if name := h.ownNumbered(h.rng.IntN(ownNames)); name != not {
			return name
		}
	}
}

// pick returns one of the notes that pass, or nil.
func (h *historian) pick(pass func(*note) bool) *note {
	for range 20 {
		if len(h.notes) == 0 {
			return nil
		}
		if n := h.notes[h.rng.IntN(len(h.notes))]; pass(n) {
			return n
		}
	}
	return nil
}

func (h *historian) step() {
	if h.done == nil {
		h.done = map[string]int{}
	}
	stored := func(n *note) bool { return !n.forgotten }
	var name string
	switch p := h.rng.IntN(100); {
	case p < 30:
		name = "remember"
		h.remember(h.draft(h.namespace("")))
	case p < 35: // the same text in another namespace
		if n := h.pick((*note).live); n != nil {
			name = "remember a twin"
			twin := h.draft(h.namespace(n.namespace))
			twin.word, twin.content = n.word, n.content
			h.remember(twin)
		}
	case p < 50:
		if n := h.pick(stored); n != nil {
			name = "update"
			h.serial++
			word := fmt.Sprintf("zq%dx%dq", h.number, h.serial)
			content := fmt.Sprintf("%s %s.", word, shared[h.rng.IntN(len(shared))])
			h.update(n, &triskelev1.Memory{Content: content}, "content", func() {
				n.former, n.word, n.content = append(n.former, n.word), word, content
			})
		}
	case p < 60:
		if n := h.pick(stored); n != nil {
			name = "flip sensitivity"
			h.update(n, &triskelev1.Memory{Sensitive: !n.sensitive}, "sensitive", func() { n.sensitive = !n.sensitive })
		}
	case p < 63:
		if n := h.pick(func(n *note) bool { return n.live() }); n != nil {
			name = "expire"
			h.update(n, &triskelev1.Memory{ExpiresAt: timestamppb.New(time.Now().Add(-time.Second))}, "expires_at", func() { n.expired = true })
		}
	case p < 73:
		if n := h.pick((*note).live); n != nil {
			name = "supersede"
			h.supersede(n)
		}
	case p < 80:
		if n := h.pick(stored); n != nil {
			name = "forget"
			h.forget(n)
		}
	case p < 95:
		if n := h.pick(func(n *note) bool {
			return n.namespace == h.own && h.made || slices.Contains(sharedNamespaces, n.namespace)
		}); n != nil {
			name = "recall"
			h.recall(n)
		}
	case p < 97:
		if h.made {
			name = "rename a namespace"
			h.rename()
		}
	case p < 98:
		if h.made {
			name = "delete a namespace"
			h.deleteOwn()
		}
	default:
		name = "crash"
		h.d.crash(h.rng)
	}
	if name != "" {
		h.done[name]++
	}
}

// shared are texts that many memories have in common, so that every index has something to tell apart.
var shared = []string{
	"The Kestrel project backs up to Heron every night",
	"Maria Lindqvist moved the Heron servers to Oslo",
	"Kestrel and Merlin share one budget in Oslo",
	"the quarterly report of Merlin is late again",
}

// draft makes a note that is not stored yet.
func (h *historian) draft(namespace string) *note {
	h.serial++
	word := fmt.Sprintf("zq%dx%dq", h.number, h.serial)
	var link string
	if to := h.pick(func(n *note) bool { return n.live() && n.namespace == namespace }); to != nil {
		link = to.id
	}
	return &note{
		link: link, namespace: namespace, word: word, content: fmt.Sprintf("%s %s.", word, shared[h.rng.IntN(len(shared))]),
		sensitive: h.rng.IntN(5) == 0, revision: 1,
	}
}

// key makes retries of one write harmless.
func (h *historian) key() string {
	h.serial++
	return fmt.Sprintf("h%d-%d", h.number, h.serial)
}

// persist repeats a call until its outcome is known: a process may be down, or die with the answer.
func (h *historian) persist(what string, call func(context.Context) error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
		err := call(ctx)
		cancel()
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal:
			// Internal: a service lost its database connection or the like to the same kill.
			if time.Now().Before(deadline) {
				continue
			}
			h.t.Errorf("%s: no outcome within a minute: %v", what, err)
		}
		return err
	}
}

func (h *historian) memory() triskelev1.MemoryServiceClient { _, m := h.d.clients(); return m }

func (n *note) proto(key string) *triskelev1.Memory {
	m := &triskelev1.Memory{Namespace: n.namespace, Content: n.content, Title: "Kestrel note", Tags: []string{"Kestrel"}, Sensitive: n.sensitive, IdempotencyKey: key}
	if n.link != "" {
		m.Links = []*triskelev1.Link{{Target: n.link, Relation: "see"}}
	}
	return m
}

func (h *historian) remember(n *note) {
	req := &triskelev1.RememberRequest{Memory: n.proto(h.key())}
	err := h.persist("remember", func(ctx context.Context) error {
		resp, err := h.memory().Remember(ctx, req)
		n.id = resp.GetMemory().GetId()
		return err
	})
	if err != nil {
		h.t.Errorf("remember: %v", err)
		return
	}
	h.notes = append(h.notes, n)
	h.made = h.made || n.namespace == h.own
}

// update changes a field, and learns from the revision whether a call whose answer was lost had its effect.
func (h *historian) update(n *note, m *triskelev1.Memory, path string, then func()) {
	req := &triskelev1.UpdateRequest{
		Namespace: n.namespace, Id: n.id, Memory: m, ExpectedRevision: n.revision,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
	}
	lost := false // an answer was, so the revision may have moved on by this update
	err := h.persist("update", func(ctx context.Context) error {
		resp, err := h.memory().Update(ctx, req)
		switch {
		case err == nil && resp.GetMemory().GetRevision() != n.revision+1:
			h.t.Errorf("%s: updated from revision %d to %d", n.id, n.revision, resp.GetMemory().GetRevision())
		case status.Code(err) == codes.Aborted && lost:
			return nil
		case err != nil:
			lost = true
		}
		return err
	})
	if err != nil {
		h.t.Errorf("update %s of %s: %v", path, n.id, err)
		return
	}
	n.revision++
	then()
}

func (h *historian) supersede(old *note) {
	n := h.draft(old.namespace)
	req := &triskelev1.SupersedeRequest{Id: old.id, Replacement: n.proto(h.key())}
	err := h.persist("supersede", func(ctx context.Context) error {
		resp, err := h.memory().Supersede(ctx, req)
		n.id = resp.GetMemory().GetId()
		return err
	})
	if err != nil {
		h.t.Errorf("supersede %s: %v", old.id, err)
		return
	}
	old.supersededBy = n.id
	old.revision++
	h.notes = append(h.notes, n)
}

func (h *historian) forget(n *note) {
	err := h.persist("forget", func(ctx context.Context) error {
		_, err := h.memory().Forget(ctx, &triskelev1.ForgetRequest{Namespace: n.namespace, Ids: []string{n.id}})
		return err
	})
	if err != nil {
		h.t.Errorf("forget %s: %v", n.id, err)
		return
	}
	n.forgotten = true
	if n.supersededBy == "" {
		return
	}
	for _, older := range h.notes { // the chain closes over what was forgotten
		if older.supersededBy == n.id {
			older.supersededBy = n.supersededBy
		}
	}
}

// rename renames the client's own namespace. If an answer was lost, it may have had its effect.
func (h *historian) rename() {
	to, lost := h.ownName(h.own), false
	err := h.persist("rename", func(ctx context.Context) error {
		_, err := h.memory().RenameNamespace(ctx, &triskelev1.RenameNamespaceRequest{Namespace: h.own, NewName: to})
		if status.Code(err) == codes.NotFound && lost {
			return nil
		}
		lost = err != nil
		return err
	})
	if err != nil {
		h.t.Errorf("rename %s: %v", h.own, err)
		return
	}
	for _, n := range h.notes {
		if n.namespace == h.own {
			n.namespace = to
		}
	}
	h.own = to
}

// deleteOwn deletes the client's own namespace. The next note in one of its own makes it anew, under whatever name.
func (h *historian) deleteOwn() {
	if err := h.persist("delete", func(ctx context.Context) error {
		_, err := h.memory().DeleteNamespace(ctx, &triskelev1.DeleteNamespaceRequest{Namespace: h.own})
		return err
	}); err != nil {
		h.t.Errorf("delete %s: %v", h.own, err)
		return
	}
	for _, n := range h.notes {
		n.forgotten = n.forgotten || n.namespace == h.own
	}
	h.own, h.made = "", false
}

// recall asks for a note by its word. The word index must know it at once if it is live; whatever the other legs find,
// none of this client's memories that are not live may be among it, nor one of the other namespace.
func (h *historian) recall(n *note) {
	mine := map[string]*note{}
	for _, n := range h.notes {
		mine[n.id] = n
	}
	limit := int32(200)
	depth := int32(200)
	off := false
	ask := func(query string, legs map[string]*triskelev1.LegOptions, required ...string) *triskelev1.RecallResponse {
		var resp *triskelev1.RecallResponse
		recall, _ := h.d.clients()
		if err := h.persist("recall", func(ctx context.Context) (err error) {
			resp, err = recall.Recall(ctx, &triskelev1.RecallRequest{
				Namespaces: []string{n.namespace}, Query: query, Limit: &limit, Legs: legs, RequiredLegs: required,
				Budget: durationpb.New(4 * time.Second),
			})
			return err
		}); err != nil {
			h.t.Errorf("recall: %v", err)
		}
		for _, hit := range resp.GetHits() {
			switch of := mine[hit.GetId()]; {
			case hit.GetNamespace() != n.namespace || hit.GetMemory() != nil && hit.GetMemory().GetNamespace() != n.namespace:
				h.t.Errorf("a recall in %s found %s of %s", n.namespace, hit.GetId(), hit.GetNamespace())
			case of != nil && !of.live():
				h.t.Errorf("a recall found %+v", *of)
			case of != nil && hit.GetMemory() != nil && hit.GetMemory().GetContent() != of.content:
				h.t.Errorf("a recall found %q, which is now %q", hit.GetMemory().GetContent(), of.content)
			}
			for _, c := range hit.GetContributions() {
				if of := mine[hit.GetId()]; of != nil && of.sensitive && c.GetLeg() != "lexical" {
					h.t.Errorf("the %s leg found the sensitive %s", c.GetLeg(), of.id)
				}
			}
		}
		return resp
	}
	ask(n.word+" Kestrel in Oslo", nil)
	words := ask(n.word, map[string]*triskelev1.LegOptions{
		"dense": {Enabled: &off}, "graph": {Enabled: &off}, "lexical": {Depth: &depth},
	}, "lexical")
	found := slices.ContainsFunc(words.GetHits(), func(hit *triskelev1.Hit) bool { return hit.GetId() == n.id })
	if n.live() && !found {
		h.t.Errorf("%s is not found by its word %s in %d hits", n.id, n.word, len(words.GetHits()))
	}
}

// settle waits until every index has caught up.
func settle(t *testing.T, d deployment, workers []*historian) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	var last string
	namespaces := slices.Clone(sharedNamespaces)
	for _, w := range workers {
		if w.made {
			namespaces = append(namespaces, w.own)
		}
	}
	for time.Now().Before(deadline) {
		behind := false
		for _, namespace := range namespaces {
			recall, _ := d.clients()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			resp, err := recall.GetIndexStatus(ctx, &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
			cancel()
			last = fmt.Sprint(resp, err)
			behind = behind || err != nil
			for _, leg := range resp.GetLegs() {
				if leg.GetStatus().GetDead() > 0 {
					t.Fatalf("the %s index gave up on a memory: %v", leg.GetLeg(), leg)
				}
				behind = behind || leg.GetStatus() == nil || leg.GetStatus().GetPending() > 0
			}
		}
		if !behind {
			return
		}
		time.Sleep(20 * time.Millisecond) // between polls of other processes
	}
	t.Fatalf("the indexes do not catch up: %s", last)
}

// checkStore compares an export of everything with the model.
func checkStore(t *testing.T, d deployment, workers []*historian) {
	t.Helper()
	want := map[string]*note{}
	for _, w := range workers {
		for _, n := range w.notes {
			if !n.forgotten {
				want[n.id] = n
			}
		}
	}
	_, memory := d.clients()
	seen := map[string]bool{}
	namespaces := slices.Clone(sharedNamespaces)
	for _, w := range workers {
		for i := range ownNames {
			namespaces = append(namespaces, w.ownNumbered(i)) // whether it exists or not
		}
	}
	for _, namespace := range namespaces {
		stream, err := memory.Export(t.Context(), &triskelev1.ExportRequest{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		for {
			resp, err := stream.Recv()
			if err != nil {
				break // checked by the count below
			}
			for _, m := range resp.GetMemories() {
				n := want[m.GetId()]
				switch {
				case n == nil:
					t.Errorf("%s is stored, but was forgotten or never acknowledged: %s", m.GetId(), m.GetContent())
				case seen[m.GetId()]:
					t.Errorf("%s is exported twice", m.GetId())
				case m.GetNamespace() != n.namespace || m.GetContent() != n.content || m.GetSensitive() != n.sensitive ||
					m.GetSupersededBy() != n.supersededBy || m.GetRevision() != n.revision || (m.GetExpiresAt() != nil) != n.expired:
					t.Errorf("stored %v\nwant   %+v", m, *n)
				}
				seen[m.GetId()] = true
			}
		}
	}
	for id, n := range want {
		if !seen[id] {
			t.Errorf("lost: %+v", *n)
		}
	}
}

var words = regexp.MustCompile(`zq\d+x\d+q`)

// checkDerived reads all tables there are behind the services' backs: every row derived from a memory belongs to one that
// exists, only the word index has anything of a sensitive one, nothing that should be indexed is missing, and nowhere is a
// word of which no memory is left. Only memories themselves may name one that is gone, as their successor or in a link, and
// the log of changes for minutes.
func checkDerived(t *testing.T, d deployment, workers []*historian, tried map[string]bool) {
	t.Helper()
	stored, private, gone, kept, forgotten := map[string]*note{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, w := range workers {
		for _, n := range w.notes {
			for _, word := range n.former {
				gone[word] = true
			}
			if n.forgotten {
				gone[n.word], forgotten[n.id] = true, true
				continue
			}
			stored[n.namespace+" "+n.id] = n
			kept[n.word] = true
			if n.sensitive {
				private[n.namespace+" "+n.id] = true
			}
		}
	}
	rowsOf := map[string]map[string]bool{}
	for table, rows := range d.tables(t) {
		for _, r := range rows {
			if table == "memory.log" { // keeps ids for minutes, so that copies in memory learn what was removed
				r.ids, r.memory = nil, ""
			}
			for _, word := range words.FindAllString(r.text, -1) {
				if gone[word] && !kept[word] {
					t.Errorf("%s still has the forgotten word %s: %s", table, word, r.text)
				}
			}
			if table != "memory.memories" {
				for _, id := range r.ids {
					if forgotten[id] {
						t.Errorf("%s still has the forgotten %s: %s", table, id, r.text)
					}
					if private[r.namespace+" "+id] && !strings.HasPrefix(table, "lexical") {
						t.Errorf("%s has the sensitive %s: %s", table, id, r.text)
					}
				}
			}
			if rowsOf[table] == nil {
				rowsOf[table] = map[string]bool{}
			}
			if r.memory == "" {
				continue
			}
			name := r.namespace + " " + r.memory
			if stored[name] == nil {
				t.Errorf("%s has a row of %s, which does not exist", table, name)
			}
			if n := stored[name]; n != nil && r.revision != 0 && r.revision != n.revision {
				t.Errorf("%s has a row of %s at revision %d, which is at %d", table, name, r.revision, n.revision)
			}
			rowsOf[table][name] = true
		}
	}
	for table := range rowsOf {
		tried[table] = true
	}
	for _, of := range []struct {
		table   string
		private bool
	}{{"lexical.documents", true}, {"dense.vectors", false}, {d.mentions(), false}} {
		for name := range stored {
			if !rowsOf[of.table][name] && (of.private || !private[name]) {
				t.Errorf("%s has nothing of %s", of.table, name)
			}
		}
	}
	maps.DeleteFunc(gone, func(word string, _ bool) bool { return kept[word] })
	if left := d.indexed(t, slices.Sorted(maps.Keys(gone))); len(left) > 0 {
		t.Errorf("the word index still knows %q", left)
	}
}
