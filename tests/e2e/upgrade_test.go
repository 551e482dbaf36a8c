//go:build upgrade

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// previous is the folder with the programs of the release before, as `make test-upgrade` builds them.
var previous = flag.String("previous", "", "folder with the programs of the release before")

// held is what a namespace has to hold, as a client that did the writing knows it.
type held struct {
	s         *system
	mu        sync.Mutex
	next      int
	live      map[string]string // word by id
	sensitive map[string]string
	gone      []string // words that no recall may find: superseded or forgotten
	token     []string // of the last write
}

func newHeld(s *system) *held {
	return &held{s: s, live: map[string]string{}, sensitive: map[string]string{}}
}

const upgraded = "upgraded/project"

func (h *held) memory() (word string, m *triskelev1.Memory) {
	h.next++
	word = fmt.Sprintf("heron%d", h.next)
	return word, &triskelev1.Memory{
		Namespace: upgraded, Title: "Backup on " + word, Content: "The Kestrel project keeps a backup on the host " + word + ".", Tags: []string{"Kestrel"},
	}
}

// write does each kind of writing once, and recalls after each, by the programs that are running.
func (h *held) write(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var stored [4]*triskelev1.Memory
	var words [4]string
	for i := range stored {
		word, m := h.memory()
		m.Sensitive = i == 3
		resp, err := h.s.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: m})
		if err != nil {
			return fmt.Errorf("remember: %w", err)
		}
		stored[i], words[i], h.token = resp.GetMemory(), word, []string{resp.GetRevisionToken()}
		if err := h.find(ctx, word, stored[i].GetId()); err != nil {
			return err
		}
	}
	h.live[stored[0].GetId()] = words[0]
	h.sensitive[stored[3].GetId()] = words[3]

	word, m := h.memory()
	resp, err := h.s.memory.Supersede(ctx, &triskelev1.SupersedeRequest{Id: stored[1].GetId(), Replacement: m})
	if err != nil {
		return fmt.Errorf("supersede: %w", err)
	}
	h.live[resp.GetMemory().GetId()] = word
	if _, err := h.s.memory.Forget(ctx, &triskelev1.ForgetRequest{Namespace: upgraded, Ids: []string{stored[2].GetId()}}); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	h.gone = append(h.gone, words[1], words[2])

	word, m = h.memory()
	changed, err := h.s.memory.Update(ctx, &triskelev1.UpdateRequest{
		Namespace: upgraded, Id: stored[0].GetId(), Memory: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content", "title"}},
	})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	h.token = []string{changed.GetRevisionToken()}
	h.live[stored[0].GetId()] = word
	h.gone = append(h.gone, words[0])
	return h.find(ctx, word, stored[0].GetId())
}

// during goes on writing and recalling while fn does something.
func (h *held) during(t *testing.T, fn func()) {
	t.Helper()
	stop, rounds := make(chan struct{}), 0
	var writing sync.WaitGroup
	writing.Go(func() {
		for ; ; rounds++ {
			if err := h.write(t.Context()); err != nil {
				t.Errorf("meanwhile: %v", err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	fn()
	close(stop)
	writing.Wait()
	t.Logf("%d rounds of writing meanwhile", rounds+1)
}

func (h *held) recall(ctx context.Context, word string) (*triskelev1.RecallResponse, error) {
	return h.s.recall.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{upgraded}, Query: word, Limit: proto.Int32(100), Budget: durationpb.New(5 * time.Second), AtLeast: h.token,
	})
}

// find wants a memory among the hits.
func (h *held) find(ctx context.Context, word, id string) error {
	resp, err := h.recall(ctx, word)
	if err != nil {
		return fmt.Errorf("recall: %w", err)
	}
	if !slices.ContainsFunc(resp.GetHits(), func(hit *triskelev1.Hit) bool { return hit.GetId() == id && hit.GetMemory() != nil }) {
		return fmt.Errorf("%s is not found: %v", word, resp)
	}
	return nil
}

// check compares all that is stored with all that was acknowledged.
func (h *held) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	want := maps.Clone(h.live)
	maps.Copy(want, h.sensitive)
	listed := 0
	for token, more := "", true; more; more = token != "" {
		resp, err := h.s.memory.List(t.Context(), &triskelev1.ListRequest{Namespace: upgraded, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range resp.GetMemories() {
			listed++
			if word, ok := want[m.GetId()]; !ok || m.GetTitle() != "Backup on "+word || m.GetSensitive() != (h.sensitive[m.GetId()] != "") {
				t.Errorf("lists %v, want %q", m, word)
			}
		}
		token = resp.GetNextPageToken()
	}
	if listed != len(want) {
		t.Errorf("lists %d memories, want %d", listed, len(want))
	}
	for id, word := range want {
		if err := h.find(t.Context(), word, id); err != nil {
			t.Error(err)
		}
	}
	for _, word := range h.gone {
		resp, err := h.recall(t.Context(), word)
		if err != nil {
			t.Fatal(err)
		}
		for _, hit := range resp.GetHits() {
			if hit.GetMemory().GetTitle() == "Backup on "+word {
				t.Errorf("%s is still found", word)
			}
		}
	}
}

// checkLegs wants an answer of every leg. It asks for a title: the more was written, the less "Kestrel" says, and the graph abstains.
func (h *held) checkLegs(t *testing.T) {
	t.Helper()
	h.s.awaitIndexes(upgraded)
	word := slices.Sorted(maps.Values(h.live))[0]
	resp, err := h.recall(t.Context(), "Backup on "+word)
	if err != nil || resp.GetDegraded() {
		t.Fatalf("%v, %v", resp, err)
	}
	for _, name := range legs {
		if r := report(resp, name); r.GetState() != triskelev1.LegState_LEG_STATE_OK || r.GetReturned() == 0 {
			t.Errorf("%v", r)
		}
	}
}

func migrate(t *testing.T, programs string, args ...string) {
	t.Helper()
	triskele(t, programs, append([]string{"migrate", "up"}, args...)...)
}

func triskele(t *testing.T, programs string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "triskele"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	t.Logf("%s:\n%s", args[0], out)
}

// replace ends a process in good order and starts the program of another folder in its place.
func (s *system) replace(name, programs string) {
	s.t.Helper()
	s.signal(name, syscall.SIGTERM)
	_ = s.processes[name].cmd.Wait()
	s.programs = programs
	s.run(name)
	s.awaitServing(name)
	s.eventually("calls get through again", func() bool {
		_, err := s.memory.List(s.t.Context(), &triskelev1.ListRequest{Namespace: upgraded})
		return err == nil
	})
}

// TestUpgradeOnPostgres migrates while the programs of the release before are at work, starts them again on the schema
// that is newer than they are, and replaces them one by one.
func TestUpgradeOnPostgres(t *testing.T) {
	s := &system{t: t, url: pgtest.Empty(t), programs: *previous}
	migrate(t, *previous, "--postgres", s.url)
	s.start(setup{}, func(string) string { return s.url }) // there are no roles yet
	h := newHeld(s)
	if err := h.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.checkLegs(t)

	h.during(t, func() { migrate(t, programs, "--postgres", s.url) })
	h.check(t)
	h.checkLegs(t)

	for name := range s.processes {
		s.replace(name, *previous)
	}
	if err := h.write(t.Context()); err != nil {
		t.Fatalf("old programs, started on the new schema: %v", err)
	}
	h.check(t)
	h.checkLegs(t)
	h.during(t, func() { triskele(t, programs, "reembed", "--postgres", s.url) })
	h.check(t)

	for _, name := range []string{"dense", "graph", "memory", "lexical", "fuser"} {
		if p := s.processes[name]; name != "fuser" {
			p.args[slices.Index(p.args, s.url)] = pgtest.Login(t, s.url, name)
		}
		s.replace(name, programs)
		if err := h.write(t.Context()); err != nil {
			t.Fatalf("after %s was replaced: %v", name, err)
		}
	}
	h.check(t)
	h.checkLegs(t)
	var vectors int
	if err := s.sql().QueryRow(t.Context(), `
		SELECT count(*) FROM dense.vectors v JOIN dense.models m ON m.id = v.model_id
		WHERE v.namespace = $1 AND m.status = 'active'`, upgraded).Scan(&vectors); err != nil {
		t.Fatal(err)
	}
	if superseded := h.next - len(h.live) - len(h.sensitive); vectors < len(h.live) || vectors > len(h.live)+superseded {
		t.Errorf("%d vectors for %d memories", vectors, len(h.live))
	}
}

// TestUpgradeOnSQLite hands one file from the program of the release before to this one, back and forth. If the built-in models differ, the
// newer one embeds the memories again by itself.
func TestUpgradeOnSQLite(t *testing.T) {
	o := startOneOf(t, *previous, setup{})
	h := newHeld(o.system)
	for _, from := range []string{*previous, programs, *previous, programs} {
		if from == *previous { // which knows no newer model
			triskele(t, from, "reembed", "--sqlite", o.file)
		}
		o.replace("triskele", from)
		if err := h.write(t.Context()); err != nil {
			t.Fatalf("programs in %s: %v", from, err)
		}
		h.check(t)
		h.checkLegs(t)
	}
}
