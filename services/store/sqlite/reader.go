package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// maxStatements is how many statements a Reader keeps compiled on each of its connections. There are about a hundred, and more
// with each combination of filters.
const maxStatements = 512

// Reader runs queries on the reading connections. It keeps their statements compiled, which for a search takes as long as to
// look up a few dozen rows.
type Reader struct {
	*sql.DB

	mu       sync.RWMutex
	compiled map[string]*sql.Stmt
}

// QueryContext is sql.DB's.
func (r *Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if statement := r.statement(ctx, query); statement != nil {
		return statement.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is sql.DB's.
func (r *Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if statement := r.statement(ctx, query); statement != nil {
		return statement.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// statement returns a query's statement; nil if there are too many or it does not compile, which running it will tell. Those
// that are kept stay until the database is closed, so none is closed while somebody uses it.
func (r *Reader) statement(ctx context.Context, query string) *sql.Stmt {
	r.mu.RLock()
	statement, full := r.compiled[query], len(r.compiled) >= maxStatements
	r.mu.RUnlock()
	if statement != nil || full {
		return statement
	}
	made, err := r.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if statement = r.compiled[query]; statement == nil && len(r.compiled) < maxStatements {
		if r.compiled == nil {
			r.compiled = map[string]*sql.Stmt{}
		}
		r.compiled[query] = made
		return made
	}
	_ = made.Close() // others were faster
	return statement
}
