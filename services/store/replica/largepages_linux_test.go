package replica

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestLarge: a large slice begins with a large page, and the system keeps its whole ones as such. A small slice is as any other.
func TestLarge(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this system has no transparent huge pages")
	}
	for _, small := range []int{0, 1, largePage/4 - 1} {
		if s := Large[uint32](small/2, small); len(s) != small/2 || cap(s) != small {
			t.Errorf("a slice of %d for %d has %d for %d", small/2, small, len(s), cap(s))
		}
	}
	const length, capacity = largePage / 8, 3 * largePage / 4
	s := Large[uint32](length, capacity)
	if len(s) != length || cap(s) != capacity {
		t.Fatalf("a slice of %d for %d has %d for %d", length, capacity, len(s), cap(s))
	}
	at := uintptr(unsafe.Pointer(&s[0]))
	if at%largePage != 0 {
		t.Errorf("the slice begins at %#x, not with a large page", at)
	}
	last := at + 3*largePage - 1
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside, flags := false, ""
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && last < to
		}
		if rest, is := strings.CutPrefix(line, "VmFlags:"); is && inside {
			flags = rest
		}
	}
	if !strings.Contains(flags, " hg ") {
		t.Errorf("the pages of the slice have the flags %q, want hg among them", flags)
	}
}
