package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// scripted is a source of one namespace's graph: a memory for each version.
type scripted struct {
	at    state
	read  []int64 // the versions that changes were asked for since
	panic bool
}

func (s *scripted) state(_ context.Context, namespace string) (state, error) {
	if namespace != "n" {
		return state{}, nil
	}
	return s.at, nil
}

func (s *scripted) changes(_ context.Context, _, _ string, after int64) (out []memoryRows, err error) {
	if s.panic {
		panic("of a private text")
	}
	s.read = append(s.read, after)
	for v := after + 1; v <= s.at.version; v++ {
		out = append(out, memoryRows{ID: uuid.NewSHA1(uuid.Nil, []byte{byte(s.at.epoch), byte(v)}), Mentions: []mention{{concept: v, salience: 1}}})
	}
	return out, nil
}

func (s *scripted) memories(context.Context, string) ([]uuid.UUID, error) {
	return nil, errors.New("nothing was removed")
}

func (s *scripted) texts(_ context.Context, _, _ string, ids []int64) (map[int64]conceptText, error) {
	out := map[int64]conceptText{}
	for _, id := range ids {
		out[id] = conceptText{key: fmt.Sprint("concept ", id), name: "Concept"}
	}
	return out, nil
}

// memories returns how many memories of a namespace's graph a search finds, -1 if it has to do without.
func memories(t *testing.T, r *replicas, namespace string) int {
	t.Helper()
	n := -1
	ready, err := r.with(t.Context(), namespace, func(g *network) { n = len(g.memory) })
	if err != nil || ready != (n >= 0) {
		t.Fatalf("ready %v with %d memories, %v", ready, n, err)
	}
	return n
}

// TestPanicWhileCatchingUp: a graph that cannot be read without a panic is searched otherwise until it changes.
func TestPanicWhileCatchingUp(t *testing.T) {
	s := &scripted{at: state{epoch: 1, version: 2}}
	r := newReplicas(reader{source: s}, 1000, 0.5)
	if got := memories(t, r, "n"); got != 2 {
		t.Errorf("got %d memories, want 2", got)
	}
	s.at.version, s.panic = 3, true
	for range 2 {
		if got := memories(t, r, "n"); got != -1 {
			t.Errorf("got %d memories of what cannot be read, want none", got)
		}
	}
	s.at.version, s.panic = 4, false
	if got := memories(t, r, "n"); got != 4 {
		t.Errorf("got %d memories once it can be read, want 4", got)
	}
}

// TestInventedNamespacesLeaveNoReplica: only what has a graph is kept, and only as long.
func TestInventedNamespacesLeaveNoReplica(t *testing.T) {
	s := &scripted{at: state{epoch: 1, version: 2}}
	r := newReplicas(reader{source: s}, 1000, 0.5)
	memories(t, r, "n")
	for i := range 1000 {
		if got := memories(t, r, fmt.Sprint("invented ", i)); got != 0 {
			t.Fatalf("got %d memories of an invented namespace, want 0", got)
		}
	}
	if got := len(r.all); got != 1 {
		t.Errorf("got %d replicas, want the one of the namespace with a graph", got)
	}
	s.at = state{}
	if got := memories(t, r, "n"); got != 0 {
		t.Errorf("got %d memories of a namespace that is gone, want 0", got)
	}
	if len(r.all) != 0 || r.inUse != 0 || r.none.arcs != 0 {
		t.Errorf("got %d replicas with %d arcs, and %d of none, want nothing", len(r.all), r.inUse, r.none.arcs)
	}
}

// TestSmallReplicasCount: many small graphs are forgotten as a large one would be.
func TestSmallReplicasCount(t *testing.T) {
	s := &everywhere{scripted{at: state{epoch: 1, version: 1}}}
	r := newReplicas(reader{source: s}, 1000, 0.5)
	for i := range 100 {
		memories(t, r, fmt.Sprint(i))
	}
	if got, most := len(r.all), 1000/replicaArcs; got > most || got < most/2 {
		t.Errorf("got %d replicas of a memory each, want as many as %d, the room there is", got, most)
	}
}

// everywhere is the same graph in all namespaces.
type everywhere struct{ scripted }

func (s *everywhere) state(context.Context, string) (state, error) { return s.at, nil }

// TestStaleReadLoadsNothing: a state that is older than the replica, read before somebody caught up or from a standby, is there.
func TestStaleReadLoadsNothing(t *testing.T) {
	s := &scripted{at: state{epoch: 1, version: 5}}
	r := newReplicas(reader{source: s}, 1000, 0.5)
	for _, x := range []struct {
		at       state
		memories int
		read     []int64
	}{
		{state{1, 5, 0}, 5, []int64{0}},
		{state{1, 3, 0}, 5, nil},
		{state{1, 6, 0}, 6, []int64{5}},
		{state{2, 4, 0}, 4, []int64{0}}, // another graph
	} {
		s.at, s.read = x.at, nil
		if got := memories(t, r, "n"); got != x.memories || !slices.Equal(s.read, x.read) {
			t.Errorf("at %+v: got %d memories, read since %v, want %d, since %v", x.at, got, s.read, x.memories, x.read)
		}
	}
}
