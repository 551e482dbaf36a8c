package replica

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestLargePages: the system keeps the whole large pages of a slice as such, and a short slice is left alone.
func TestLargePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this system has no transparent huge pages")
	}
	s := make([]uint32, 3*largePage/4)
	LargePages(s)
	LargePages(s[:1])
	LargePages([]uint32(nil))
	middle := uintptr(unsafe.Pointer(&s[len(s)/2]))
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside, flags := false, ""
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= middle && middle < to
		}
		if rest, is := strings.CutPrefix(line, "VmFlags:"); is && inside {
			flags = rest
		}
	}
	if !strings.Contains(flags, " hg ") {
		t.Errorf("the pages of the slice have the flags %q, want hg among them", flags)
	}
}
