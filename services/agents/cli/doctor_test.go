package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// What waits must not hide what is done, and what was given up on neither.
func TestCheckIndex(t *testing.T) {
	t.Parallel()
	st := &triskelev1.GetIndexStatusResponse{Indexed: 7, Model: "builtin/m (3 dimensions)", Excluded: 2}
	const all = "7 memories, model builtin/m (3 dimensions), 2 kept out because they are sensitive"
	for _, tc := range []struct {
		pending, dead int64
		verdict       verdict
		want          string
	}{
		{0, 0, ok, all},
		{4, 0, warn, all + ", 4 waiting, the oldest for 1m23s"},
		{4, 1, fail, all + ", 4 waiting, the oldest for 1m23s, 1 given up on: `triskele queue list --dead` shows why"},
	} {
		st.Pending, st.Dead, st.Lag = tc.pending, tc.dead, durationpb.New(83*time.Second)
		var found findings
		checkIndex(&triskelev1.LegIndexStatus{Leg: "dense", Status: st}, &found)
		if len(found) != 1 || found[0].Verdict != tc.verdict || found[0].Detail != tc.want {
			t.Errorf("found %+v, want %v: %s", found, tc.verdict, tc.want)
		}
	}
}
