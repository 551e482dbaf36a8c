package sqlite

import (
	"context"
	"database/sql/driver"
)

// maxStatements is how many compiled statements a connection keeps. There are about two hundred, and more with each combination of
// filters.
const maxStatements = 512

// keeper opens connections that keep their statements compiled. Compiling the statements of a search or a write takes as long as
// running them.
type keeper struct {
	driver driver.Driver
	dsn    string
}

// Connect implements driver.Connector.
func (k keeper) Connect(context.Context) (driver.Conn, error) {
	c, err := k.driver.Open(k.dsn)
	if err != nil {
		return nil, err
	}
	return &keeping{c.(connection), map[string]statement{}}, nil
}

// Driver implements driver.Connector.
func (k keeper) Driver() driver.Driver { return k.driver }

// connection is what database/sql uses of a connection. It has no way around compiling: all statements come from PrepareContext.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keeping is a connection that keeps statements, and translates those of PostgreSQL's dialect. database/sql uses it from one goroutine at a time.
type keeping struct {
	connection
	kept map[string]statement // by query; none is in use
}

func (c *keeping) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := c.kept[query]; ok {
		delete(c.kept, query)
		return lent{s, c, query}, nil
	}
	s, err := c.connection.PrepareContext(ctx, translate(query))
	if err != nil {
		return nil, err
	}
	return lent{s.(statement), c, query}, nil
}

func (c *keeping) Close() error {
	c.drop()
	return c.connection.Close()
}

func (c *keeping) drop() {
	for query, s := range c.kept {
		delete(c.kept, query)
		_ = s.Close()
	}
}

// lent is a statement that is in use.
type lent struct {
	statement
	by    *keeping
	query string
}

// Close gives the statement back. If there are too many, all are dropped: those that are used often come back at once.
func (s lent) Close() error {
	if _, twice := s.by.kept[s.query]; twice {
		return s.statement.Close()
	}
	if len(s.by.kept) >= maxStatements {
		s.by.drop()
	}
	s.by.kept[s.query] = s.statement
	return nil
}
