package replica

import (
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{{0, 100}, {64 << 20, 100}, {256 << 20, 25}, {1 << 30, 6}, {1 << 40, 4}} {
		if got := garbagePercent(test.live); got != test.want {
			t.Errorf("with %d MiB live, %d %% may be garbage, want %d", test.live>>20, got, test.want)
		}
	}
}

func TestLessGarbageBesideMuchMemory(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set, so it stays as it is")
	}
	boundGarbage()
	large := make([]byte, 1<<30) // which nobody touches
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(set)
		if set[0].Value.Uint64() <= 6 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("GOGC is %d beside 1 GiB, want at most 6", set[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(large)
}
