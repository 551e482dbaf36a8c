package workers_test

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/triskele/triskele/fuser/platform/workers"
)

// TestAll has tasks that wait for each other, twice, so that some run in goroutines that waited. The bubble ends only if none of
// these is left.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := workers.NewPool()
		defer pool.Close()
		for range 2 {
			var ran atomic.Int32
			together := make(chan bool)
			task := func() {
				if ran.Add(1) == 3 {
					close(together)
				}
				<-together
			}
			pool.All([]func(){task, task, task})
			if got := ran.Load(); got != 3 {
				t.Errorf("%d tasks have run, want 3", got)
			}
			synctest.Wait()
		}
		pool.All(nil)
	})
}

// TestGoroutinesStay checks that a goroutine which waits runs the next task, and that none waits after the end.
func TestGoroutinesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := workers.NewPool()
		run := func() (goroutine string) {
			pool.Go(func() {
				stack := make([]byte, 64)
				head, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte("["))
				goroutine = string(head)
			})
			synctest.Wait()
			return goroutine
		}
		if first, second := run(), run(); first != second {
			t.Errorf("tasks ran in %sand %s, want one goroutine", first, second)
		}
		pool.Close()
		pool.Close()
		if first, second := run(), run(); first == second {
			t.Errorf("after the end both tasks ran in %s", first)
		}
	})
}

// TestNothingIsKept checks that a goroutine which waits keeps nothing of its last task: it may be a query.
func TestNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := workers.NewPool()
		defer pool.Close()
		kept := func() weak.Pointer[[1024]byte] {
			text := new([1024]byte)
			pool.Go(func() { text[0]++ })
			return weak.Make(text)
		}()
		synctest.Wait()
		runtime.GC()
		if kept.Value() != nil {
			t.Error("a task's text is kept after its end")
		}
	})
}
