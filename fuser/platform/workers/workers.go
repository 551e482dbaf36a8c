// Package workers runs tasks in goroutines that wait for the next task, so that their stacks need not grow again. Growing took a
// tenth of the processor time of a small recall.
package workers

import (
	"sync"
	"sync/atomic"
)

// mostIdle goroutines of a pool wait.
const mostIdle = 32

// Pool runs tasks.
type Pool struct {
	tasks chan func()
	idle  atomic.Int32
	done  chan struct{}
	close func()
}

// NewPool returns a pool without goroutines.
func NewPool() *Pool {
	p := &Pool{tasks: make(chan func()), done: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.done) })
	return p
}

// Close ends the goroutines that wait. Tasks end as they do.
func (p *Pool) Close() { p.close() }

// Go runs a task in a goroutine that waits, or else in a new one. A task must not panic.
func (p *Pool) Go(task func()) {
	select {
	case p.tasks <- task:
	default:
		go p.work(task)
	}
}

// work runs a task, and those that come while it waits. It does not wait if enough goroutines do, or after Close.
func (p *Pool) work(task func()) {
	for task != nil {
		task()
		task = nil // keeps nothing of a task that has ended
		if p.idle.Add(1) <= mostIdle {
			select {
			case task = <-p.tasks:
			case <-p.done:
			}
		}
		p.idle.Add(-1)
	}
}

// All runs tasks at once, the last in the caller's goroutine, and waits for all.
func (p *Pool) All(tasks []func()) {
	var others sync.WaitGroup
	for i, task := range tasks {
		if i == len(tasks)-1 {
			task()
			break
		}
		others.Add(1)
		p.Go(func() {
			defer others.Done()
			task()
		})
	}
	others.Wait()
}
