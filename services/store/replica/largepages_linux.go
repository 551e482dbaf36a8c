package replica

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on most processors.
const largePage = 2 << 20

// Large makes a long-lived slice of numbers, and asks the system to keep it on large pages. The processor looks up the address of each
// page that it reads, which can take longer than reading it. The slice begins with a page, else a third of one of 6 MB would be on small
// ones. So it may take a page more. Nothing else changes if the system refuses.
func Large[T any](length, capacity int) []T {
	size := int(unsafe.Sizeof(*new(T)))
	if capacity*size < largePage {
		return make([]T, length, capacity)
	}
	s := make([]T, capacity+largePage/size)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(s)))&(largePage-1)) / size
	s = s[skip : skip+length : skip+capacity]
	pages := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), capacity*size)
	_ = unix.Madvise(pages[:len(pages)&^(largePage-1)], unix.MADV_HUGEPAGE)
	_ = unix.Madvise(pages[:length*size&^(largePage-1)], unix.MADV_COLLAPSE) // those that Go had used before stay small for minutes
	return s
}
