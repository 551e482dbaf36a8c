package replica

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// allowedGarbage is how much garbage may wait for the collector. Go's default, as much as is live, would double the memory of large
// images. They hold few pointers, so collecting more often costs little. What a load leaves is given back at
// once: Go would keep a tenth of the heap.
const allowedGarbage = 64 << 20

// boundGarbage bounds the garbage of this process from now on, unless GOGC is set. After each collection it tells the collector
// what part of the live memory allowedGarbage is.
var boundGarbage = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := 100
	var again func(int)
	again = func(int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if next := garbagePercent(live[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		runtime.AddCleanup(new([16]byte), again, 0) // runs after the next collection
	}
	again(0)
})

// garbagePercent returns allowedGarbage in percent of live memory, from 4 to 100.
func garbagePercent(live uint64) int {
	return int(min(max(allowedGarbage*100/max(live, 1), 4), 100))
}
