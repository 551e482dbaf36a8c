package replica

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on most processors.
const largePage = 2 << 20

// LargePages asks the system to keep a new, long-lived slice on large pages, as far as it covers whole ones. The processor looks up the
// address of each page that it reads, which takes as long as reading it: searches of many MB wait half as long. The slice should not be
// written before: what was, stays on small pages for minutes. Nothing changes if the system refuses.
func LargePages[T any](s []T) {
	at, size := uintptr(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T)))
	skip := int(-at & (largePage - 1))
	if whole := (size - skip) &^ (largePage - 1); whole > 0 {
		_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), size)[skip:skip+whole], unix.MADV_HUGEPAGE)
	}
}
