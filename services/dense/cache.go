package dense

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// cache holds matrices by namespace. The zero value is empty.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
	recent  list.List // of *entry, most recently used first
}

// entry is a namespace's matrix.
type entry struct {
	namespace string
	element   *list.Element
	turn      chan struct{} // a mutex that allows waiting with a context; its holder updates the matrix
	matrix    matrix        // guarded by cache.mu, like the fields below

	// For searches without the matrix:
	spent   time.Duration // total time of these searches
	reading bool          // a read is in progress
	failed  time.Time     // time of the last failed read
}

// use returns a namespace's entry and matrix.
func (c *cache) use(namespace string) (*entry, matrix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[namespace]
	if e == nil {
		if c.entries == nil {
			c.entries = map[string]*entry{}
		}
		e = &entry{namespace: namespace, turn: make(chan struct{}, 1)}
		e.element = c.recent.PushFront(e)
		c.entries[namespace] = e
	}
	c.recent.MoveToFront(e.element)
	return e, e.matrix
}

// put sets an entry's matrix and evicts least recently used namespaces above maxBytes.
func (c *cache) put(e *entry, m matrix, maxBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.matrix = m
	var total int64
	for element := c.recent.Front(); element != nil; {
		next := element.Next()
		other := element.Value.(*entry)
		total += other.matrix.bytes()
		if total > maxBytes && other != e {
			c.remove(other)
		}
		element = next
	}
}

// drop evicts a namespace.
func (c *cache) drop(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[namespace]; e != nil {
		c.remove(e)
	}
}

func (c *cache) remove(e *entry) {
	c.recent.Remove(e.element)
	delete(c.entries, e.namespace)
}

// view returns an entry's matrix.
func (c *cache) view(e *entry) matrix {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.matrix
}

// find returns a namespace's entry and matrix, or nil.
func (c *cache) find(namespace string) (*entry, matrix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[namespace]
	if e == nil {
		return nil, matrix{}
	}
	c.recent.MoveToFront(e.element)
	return e, e.matrix
}

// spend adds the time of a search without the matrix. It starts read in the background once the total exceeds the estimated
// time of reading. The cost is at most twice that of a perfect choice ("ski rental"; Karlin et al., "Competitive Snoopy
// Caching", Algorithmica 1988).
func (c *cache) spend(namespace string, took, reading time.Duration, read func(*entry) error) {
	e, _ := c.use(namespace)
	c.mu.Lock()
	e.spent += took
	enough := e.spent > reading
	c.mu.Unlock()
	if enough {
		c.read(e, read)
	}
}

// read starts read in the background, unless it is in progress or failed within keepFor.
func (c *cache) read(e *entry, read func(*entry) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.reading || time.Since(e.failed) < keepFor {
		return
	}
	e.reading = true
	go func() {
		err := panics.Catch(context.Background(), nil, "read vectors into memory", func() error { return read(e) })
		c.mu.Lock()
		defer c.mu.Unlock()
		e.reading, e.spent = false, 0
		if err != nil {
			e.failed = time.Now()
		}
	}()
}

// saw advances an entry's snapshot from compared to later, if no other search has changed it.
func (c *cache) saw(e *entry, compared, later string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.matrix.snapshot == compared {
		e.matrix.snapshot = later
	}
}
