package sqlite

import "database/sql/driver"

// MaxStatements is how many statements a connection keeps.
const MaxStatements = maxStatements

// Connection is what a connection that keeps statements asks of its driver's.
type Connection = connection

// Keeper opens connections of a driver that keep their statements.
func Keeper(d driver.Driver, dsn string) driver.Connector { return keeper{d, dsn} }

// DiskError returns the condition that a result code means, or nil.
func DiskError(code int) error { return diskError(code) }
