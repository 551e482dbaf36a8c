package querypath

import (
	"container/list"
	"sync"
)

// entryOverhead is about what an entry takes besides its text and vector.
const entryOverhead = 160

// lru keeps the vectors that were used last, up to a number of bytes.
type lru struct {
	mu      sync.Mutex
	limit   int
	used    int
	entries map[string]*list.Element
	order   list.List // of *entry, the one used last in front
}

type entry struct {
	text   string
	vector []float32
}

func (e *entry) bytes() int { return entryOverhead + len(e.text) + 4*len(e.vector) }

func newLRU(limit int) *lru { return &lru{limit: limit, entries: map[string]*list.Element{}} }

// get returns a vector that must not be changed, nil if there is none.
func (c *lru) get(text string) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[text]
	if element == nil {
		return nil
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry).vector
}

// put keeps a vector, and drops what was used longest ago until there is room. A text that alone takes more than the
// limit is not kept.
func (c *lru) put(text string, vector []float32) {
	e := &entry{text, vector}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[text] != nil || e.bytes() > c.limit {
		return
	}
	c.entries[text] = c.order.PushFront(e)
	c.used += e.bytes()
	for c.used > c.limit {
		last := c.order.Back()
		dropped := c.order.Remove(last).(*entry)
		delete(c.entries, dropped.text)
		c.used -= dropped.bytes()
	}
}

// size returns how many bytes are used.
func (c *lru) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
