package graph

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// TestLinkedTogether: documents of one batch are linked as if each linkedTogether of them had a batch of their own.
func TestLinkedTogether(t *testing.T) {
	t.Parallel()
	const n = 5*linkedTogether/2 + 1
	var records []record.Record
	for i := range n {
		records = append(records, record.Record{
			Namespace: "n", ID: uuid.UUID{byte(i >> 8), byte(i)}, Revision: 1,
			Title: fmt.Sprintf("heron %d", i), Content: fmt.Sprintf("it follows heron %d, heron %d and an old crane", (i+1)%n, (i+linkedTogether)%n),
		})
	}
	_, all := documents(records)
	got := mentionsIn(all["n"], map[int64]bool{conceptID("old crane"): true}, nil)

	var want [][]mention
	known := map[int64]bool{conceptID("old crane"): true}
	forward := 0 // mentions of concepts that come later in the batch
	for together := range slices.Chunk(records, linkedTogether) {
		_, some := documents(together)
		want = append(want, mentionsIn(some["n"], known, nil)...)
		for _, d := range some["n"] {
			known[conceptID(d.concepts[0].Key)] = true
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v in one batch, want %v as in several", got, want)
	}
	for i, mentions := range got[:n-1] {
		if slices.ContainsFunc(mentions, func(m mention) bool { return m.concept == conceptID(Key(fmt.Sprintf("heron %d", i+1))) }) {
			forward++
		}
	}
	if want := n - 1 - (n-1)/linkedTogether; forward != want {
		t.Errorf("got %d memories with the one after them, want %d", forward, want)
	}
}
