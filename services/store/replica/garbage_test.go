package replica

import (
	"runtime/debug"
	"testing"
)

func TestLessGarbageBesideLargeImages(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	s := &Set{}
	for _, step := range []struct {
		bytes int64
		want  int
	}{{0, 100}, {200 << 20, 50}, {800 << 20, 25}, {-700 << 20, 50}, {-300 << 20, 100}} {
		s.hold(step.bytes)
		if got := percent(); got != step.want {
			t.Errorf("after %d MB more, GOGC is %d, want %d", step.bytes>>20, got, step.want)
		}
	}
	t.Setenv("GOGC", "80")
	s.hold(800 << 20)
	if got := percent(); got != 100 {
		t.Errorf("with GOGC set, it is %d, want 100 as before", got)
	}
	s.hold(-800 << 20)
}
