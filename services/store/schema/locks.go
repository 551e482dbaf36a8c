package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/pressly/goose/v3/lock"
)

// Services keep working during a migration, and a statement that waits for a lock blocks all later ones. A step
// therefore waits briefly, is rolled back, and is retried after a pause. Each attempt waits longer: autovacuum yields
// only to statements that wait longer than deadlock_timeout, one second.
const (
	firstLockTimeout = 200 * time.Millisecond
	maxLockTimeout   = 3 * time.Second
	firstPause       = 100 * time.Millisecond
)

// retries limit the attempts of a step and the pauses between them.
type retries struct {
	attempts int
	maxPause time.Duration
}

// defaultRetries last about four minutes.
var defaultRetries = retries{20, 15 * time.Second}

// lockTimeout returns the lock_timeout of the n-th attempt, from 1.
func lockTimeout(attempt int) time.Duration {
	return min(firstLockTimeout<<(attempt-1), maxLockTimeout)
}

// retry calls attempt until it succeeds or fails for another reason than a lock. It tells waiting before each pause.
// It returns how many attempts there were.
func (r retries) retry(ctx context.Context, attempt func(number int) (applied bool, err error), waiting func()) (applied bool, attempts int, err error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = min(firstPause, r.maxPause), r.maxPause, 2
	applied, err = backoff.Retry(ctx, func() (bool, error) {
		attempts++
		applied, err := attempt(attempts)
		if err != nil && !lockFailed(err) {
			return false, backoff.Permanent(err)
		}
		return applied, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(uint(r.attempts)), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(error, time.Duration) { waiting() }))
	return applied, attempts, err
}

// lockFailed reports whether a step failed only for want of a lock: by a lock timeout, or as the victim of a deadlock.
func lockFailed(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && (coded.SQLState() == "55P03" || coded.SQLState() == "40P01")
}

// timedLocker is a migration lock that sets lock_timeout to patience for the statements under it; 0 waits forever.
type timedLocker struct {
	lock.SessionLocker
	patience time.Duration
}

func (l timedLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if err := l.SessionLocker.SessionLock(ctx, conn); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf("SET lock_timeout = %d", l.patience.Milliseconds()))
	return err
}

func (l timedLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "RESET lock_timeout")
	return errors.Join(err, l.SessionLocker.SessionUnlock(ctx, conn))
}

// oldest describes the oldest open transaction, which is the likeliest lock holder; "" if it is unknown.
func oldest(ctx context.Context, db *sql.DB) string {
	var process int
	var program string
	var seconds float64
	if err := db.QueryRowContext(ctx, `
		SELECT pid, coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1`).
		Scan(&process, &program, &seconds); err != nil {
		return ""
	}
	return fmt.Sprintf(" (the oldest transaction has been open for %v, in process %d of application %q)", time.Duration(seconds*float64(time.Second)).Round(time.Second), process, program)
}
