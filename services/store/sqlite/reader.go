package sqlite

import (
	"container/list"
	"context"
	"database/sql"
	"sync"
)

// maxStatements is how many compiled statements a Reader keeps per connection. There are about a hundred, and more
// with each combination of filters.
const maxStatements = 512

// Reader runs queries on the read connections and keeps the most recently used statements compiled. Compiling a
// search takes as long as reading a few dozen rows.
type Reader struct {
	*sql.DB

	mu       sync.Mutex
	compiled map[string]*list.Element // of order
	order    list.List                // of *statement, most recently used first
}

// statement is a compiled query. It is closed once it is out of the list and has no users.
type statement struct {
	*sql.Stmt
	query string
	users int
	out   bool
}

// QueryContext is as sql.DB's.
func (r *Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.take(ctx, query); s != nil {
		defer r.release(s)
		return s.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is as sql.DB's.
func (r *Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := r.take(ctx, query); s != nil {
		defer r.release(s)
		return s.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// take returns a query's statement, to be released; nil if it does not compile.
func (r *Reader) take(ctx context.Context, query string) *statement {
	if s := r.kept(query); s != nil {
		return s
	}
	made, err := r.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	return r.keep(&statement{Stmt: made, query: query, users: 1})
}

func (r *Reader) kept(query string) *statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.compiled[query]
	if !ok {
		return nil
	}
	r.order.MoveToFront(at)
	s := at.Value.(*statement)
	s.users++
	return s
}

// keep adds a statement, evicting the least recently used one. Of two with the same query the later stays.
func (r *Reader) keep(s *statement) *statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compiled == nil {
		r.compiled = map[string]*list.Element{}
	}
	if at, ok := r.compiled[s.query]; ok {
		r.drop(at)
	} else if r.order.Len() >= maxStatements {
		r.drop(r.order.Back())
	}
	r.compiled[s.query] = r.order.PushFront(s)
	return s
}

// drop removes a statement from the list.
func (r *Reader) drop(at *list.Element) {
	s := r.order.Remove(at).(*statement)
	delete(r.compiled, s.query)
	if s.out = true; s.users == 0 {
		_ = s.Close()
	}
}

// release ends a use of a statement; rows that are still being read keep it open.
func (r *Reader) release(s *statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.users--; s.users == 0 && s.out {
		_ = s.Close()
	}
}
