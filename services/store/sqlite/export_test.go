package sqlite

import "database/sql/driver"

// MaxStatements is how many statements a connection keeps.
const MaxStatements = maxStatements

// Keeper opens connections of a driver that keep their statements.
func Keeper(d driver.Driver, dsn string) driver.Connector { return keeper{d, dsn} }
