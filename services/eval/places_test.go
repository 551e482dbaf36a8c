package eval

import (
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/fusion"
)

// TestExchange: the control of a trial is the same graph with other memories at its nodes, each of the same degree.
func TestExchange(t *testing.T) {
	degrees := map[uuid.UUID]int{}
	for i := range 60 {
		degrees[uuid.New()] = i % 3
	}
	random := exchange(degrees)
	moved := 0
	list := fusion.List{Hits: []fusion.Hit{{ID: "unknown"}}}
	for id, degree := range degrees {
		now := random.of[id.String()]
		if degrees[uuid.MustParse(now)] != degree || random.at[now] != id.String() {
			t.Errorf("%v of degree %d has changed places with %v", id, degree, now)
		}
		if now != id.String() {
			moved++
		}
		list.Hits = append(list.Hits, fusion.Hit{ID: id.String()})
	}
	if moved < 40 {
		t.Errorf("%d of 60 have moved", moved)
	}
	for i, h := range random.found(list).Hits {
		if want := random.of[list.Hits[i].ID]; h.ID != want && i > 0 || i == 0 && h.ID != "unknown" {
			t.Errorf("at the place of %s is %s", list.Hits[i].ID, h.ID)
		}
	}
}
