package replica

import (
	"os"
	"runtime/debug"
	"sync"
)

// held is the memory of all images in the process, and percent what the garbage collector was told last.
var held struct {
	sync.Mutex
	bytes   int64
	percent int
}

// hold counts memory of images, and tells the garbage collector how much garbage may wait, in percent of what is live. Go's 100
// would double the memory of large images, which hold few pointers and seldom change, so they are collected at little cost.
func (s *Set) hold(bytes int64) {
	held.Lock()
	defer held.Unlock()
	held.bytes += bytes
	percent := 100
	switch {
	case s.config.Brief:
		percent = 400 // such a process ends before its garbage matters
	case held.bytes > 512<<20:
		percent = 25
	case held.bytes > 128<<20:
		percent = 50
	}
	if percent != held.percent && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		held.percent = percent
	}
}
