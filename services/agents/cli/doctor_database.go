package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/wiring/backend"
)

const (
	// Skew above skewShown can misorder memories. Skew above skewBad also affects expiry.
	skewShown, skewBad = time.Second, time.Minute
	// longStandbyLag is the standby lag that causes a warning.
	longStandbyLag = 30 * time.Second
	// skewedBy is how many times the mean a node may hold.
	skewedBy = 2
	// lowDisk is about what a busy file grows by in hours.
	lowDisk = 256 << 20
)

// checkExamined reports the database's self-examination.
func checkExamined(e backend.Examination, server bool, found *findings) {
	if len(e.TooOld) > 0 {
		found.add(fail, "versions", "%s: upgrade the server, then its extensions with ALTER EXTENSION ... UPDATE", strings.Join(e.TooOld, "; "))
	} else if server {
		found.add(ok, "versions", "the server and its extensions are new enough")
	}
	checkDisk(e, found)
	for _, damage := range e.Damage {
		found.add(fail, "file", "the file is damaged (%s): stop what uses it and restore a backup", damage)
	}
	if server {
		checkClock(e.Clock, found)
		checkStandbys(e, found)
		checkNodes(e, found)
	}
	for _, name := range e.Invalid {
		found.add(fail, "indexes", "index %s is unfinished, so searches do not use it: REINDEX INDEX CONCURRENTLY %[1]s", name)
	}
	if e.NoVectorIndex {
		found.add(fail, "indexes", "a namespace is too large for memory (--search-memory), and the active model's vectors have no index, so every one of them is compared: triskele reembed builds it")
	}
	for _, namespace := range e.UnindexedIn {
		found.add(fail, "words", "namespace %s has memories that cannot be found by words: triskele lexical reindex %[1]s", namespace)
	}
	if e.Vectorless > 0 {
		found.add(warn, "vectors", "%s without a vector or a place in the queue: the model finds nothing in them, or the vectors were lost; `triskele reembed` with another model and back makes all anew",
			render.Count(e.Vectorless, "memory", "memories"))
	}
	if len(e.Damage)+len(e.Invalid)+len(e.UnindexedIn) == 0 && !e.NoVectorIndex && e.Vectorless == 0 {
		found.add(ok, "index health", "all indexes are valid and have all their memories")
	}
}

// checkDisk reports whether the database can write.
func checkDisk(e backend.Examination, found *findings) {
	switch {
	case errors.Is(e.WriteError, diskerr.ErrFull):
		found.add(fail, "disk", "%s: nothing can be stored, recall still works; free space, or move the database to a larger disk", e.WriteError)
	case e.WriteError != nil:
		found.add(fail, "disk", "%s: nothing can be stored, recall still works; the system's log and the database's have the cause", e.WriteError)
	case e.Free >= 0 && e.Free < lowDisk:
		found.add(warn, "disk", "%s left: free space before writes fail", render.Bytes(e.Free))
	case !e.IsStandby:
		found.add(ok, "disk", "a probe was written and rolled back")
	}
}

func checkClock(ahead time.Duration, found *findings) {
	v, advice := ok, ""
	switch off := ahead.Abs(); {
	case off > skewBad:
		v, advice = fail, ": synchronise both by NTP"
	case off > skewShown:
		v, advice = warn, ": synchronise both by NTP"
	}
	found.add(v, "clock", "the database's clock and this host's differ by %s%s", render.Duration(ahead.Abs()), advice)
}

func checkStandbys(e backend.Examination, found *findings) {
	if e.IsStandby {
		found.add(warn, "standby", "this is a standby: nothing can be written here; give services the primary as --postgres and this one as --postgres-read")
	}
	for _, s := range e.Standbys {
		switch {
		case s.State != "" && s.State != "streaming":
			found.add(warn, "standby", "%s is in state %s: see its log", s.Name, s.State)
		case s.Lag > longStandbyLag:
			found.add(warn, "standby", "%s is %s behind: is it short of disk or CPU, or does a long query hold up its replay?", s.Name, render.Duration(s.Lag))
		default:
			found.add(ok, "standby", "%s is %s behind", s.Name, render.Duration(s.Lag))
		}
	}
}

// checkNodes reports which nodes of a Citus cluster hold how much.
func checkNodes(e backend.Examination, found *findings) {
	if len(e.Nodes) == 0 {
		return
	}
	if len(e.Whole) > 0 {
		found.add(fail, "nodes", "not distributed: %s; stop all programs and run `triskele migrate up --distributed`", strings.Join(e.Whole, ", "))
		return
	}
	var total int64
	for _, n := range e.Nodes {
		total += n.Bytes
	}
	for _, n := range e.Nodes {
		v, advice := ok, ""
		switch {
		case !n.Active:
			v, advice = fail, ": it is not active; its namespaces are searched in memory and cannot be written"
		case n.Shards == 0:
			v, advice = warn, ": SELECT citus_rebalance_start() gives it some"
		case len(e.Nodes) > 1 && n.Bytes*int64(len(e.Nodes)) > skewedBy*total:
			v, advice = warn, ": more than twice its share; SELECT citus_rebalance_start() on the coordinator, or a node of its own for a large namespace"
		}
		found.add(v, "nodes", "%s holds %s with %s%s", n.Name, render.Count(n.Shards, "shard of namespaces", "shards of namespaces"), render.Bytes(n.Bytes), advice)
	}
}
