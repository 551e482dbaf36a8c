package dense

import (
	"container/list"
	"sync"
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
	matrix    matrix        // guarded by cache.mu
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
