package dense

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/triskele/triskele/fuser/platform/panics"
)

// cache keeps matrices by namespace. Its zero value is empty.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
	recent  list.List // of *entry, the one used last in front
}

// entry is the matrix of a namespace.
type entry struct {
	namespace string
	element   *list.Element
	turn      chan struct{} // holds a token while someone brings the matrix up to date; unlike a mutex, waiting for it can end
	matrix    matrix        // guarded by cache.mu, as what follows

	// Where searches can do without the matrix:
	spent   time.Duration // by searches that had to
	reading bool          // somebody is at it
	failed  time.Time     // when it could not be read
}

// use returns the entry of a namespace and its matrix.
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

// put sets an entry's matrix and drops the namespaces used least recently until the rest fits.
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

// drop forgets a namespace.
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

// view returns the matrix of an entry.
func (c *cache) view(e *entry) matrix {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.matrix
}

// find returns the entry of a namespace and its matrix; nil if it has none.
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

// spend notes what a search without a namespace's matrix took, and calls read beside the caller as soon as they have taken more
// together than reading will. So it costs at most twice what it would if one knew how often the namespace will be searched
// ("ski rental"; Karlin et al., "Competitive Snoopy Caching", Algorithmica 1988).
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

// read calls read beside the caller, unless that is being done for the entry or has failed in the last keepFor.
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

// saw sets an entry's snapshot to a later one in which nothing is new, unless it is no longer the one that was compared with.
func (c *cache) saw(e *entry, compared, later string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.matrix.snapshot == compared {
		e.matrix.snapshot = later
	}
}
