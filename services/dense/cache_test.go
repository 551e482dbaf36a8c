package dense

import (
	"testing"
	"testing/synctest"
)

// TestPanicWhileReadingIntoMemory is a failure of the reading, which is not tried again at once.
func TestPanicWhileReadingIntoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		e, _ := c.use("n")
		reads := 0
		for range 2 {
			c.read(e, func(*entry) error { reads++; panic("oh") })
			synctest.Wait()
		}
		if reads != 1 || e.reading {
			t.Errorf("got %d reads, under way %v, want one that has ended", reads, e.reading)
		}
	})
}
