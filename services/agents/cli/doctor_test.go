package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/wiring/backend"
)

// A full disk is found, whatever room is left, and so is one that soon will be.
func TestCheckRoom(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		examined backend.Examination
		verdict  verdict
		want     string
	}{
		{backend.Examination{Free: 1 << 40}, ok, "a probe was written and rolled back"},
		{backend.Examination{Free: -1}, ok, "a probe was written and rolled back"},
		{backend.Examination{Free: 12 << 20}, warn, "12.0 MiB left: free space before writes fail"},
		{backend.Examination{Free: 1 << 40, WriteError: diskerr.ErrFull}, fail, "the disk of the database is full: nothing can be stored, recall still works; free space, or move the database to a larger disk"},
		{backend.Examination{Free: -1, WriteError: diskerr.ErrReadOnly}, fail, "the database or its disk is read-only: nothing can be stored, recall still works; the system's log and the database's have the cause"},
	} {
		var found findings
		checkDisk(tc.examined, &found)
		if len(found) != 1 || found[0] != (finding{"disk", tc.verdict, tc.want}) {
			t.Errorf("found %+v, want %v: %s", found, tc.verdict, tc.want)
		}
	}
	var found findings
	if checkDisk(backend.Examination{Free: -1, IsStandby: true}, &found); len(found) != 0 {
		t.Errorf("of a standby, where nothing is written: %+v", found)
	}
}

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
