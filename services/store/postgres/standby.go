package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/platform/telemetry"
)

const (
	// lookEvery is how often the lag of a standby is looked at, and lookTime how long a look may take.
	lookEvery, lookTime = time.Second, time.Second
	// maxMarks bounds the positions that a standby has yet to replay.
	maxMarks = 3600
	// firstPause and maxPause are how long a connection pauses between two looks at what has been replayed.
	firstPause, maxPause = time.Millisecond, 20 * time.Millisecond
)

// Standby is where searches read when that is not the database that is written to: its hot standbys. Nil is the database
// that is written to.
type Standby struct {
	primary, pool *pgxpool.Pool
	lag           atomic.Int64 // nanoseconds
	alone         atomic.Bool
}

// OpenStandby returns a pool for the standbys of primary's database. It does not wait for them.
func OpenStandby(ctx context.Context, url string, primary *pgxpool.Pool, tel *telemetry.Service) (*Standby, error) {
	pool, err := open(ctx, url, tel, tel.Name+"-read", awaitReplay)
	if err != nil {
		return nil, err
	}
	s := &Standby{primary: primary, pool: pool}
	_, err = tel.MeterProvider.Meter(telemetry.ScopeName).Float64ObservableGauge("triskele.standby.lag", metric.WithUnit("s"),
		metric.WithDescription("How far the standby that a service searches in is behind the primary, as the service saw both last."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(time.Duration(s.lag.Load()).Seconds())
			return nil
		}))
	return s, err
}

// Or returns the pool of the standby, primary if there is none.
func (s *Standby) Or(primary *pgxpool.Pool) *pgxpool.Pool {
	if s == nil {
		return primary
	}
	return s.pool
}

// Close closes the connections.
func (s *Standby) Close() {
	if s != nil {
		s.pool.Close()
	}
}

// position is what connections for a search have to have replayed.
type position struct {
	lsn    string
	until  time.Time
	missed atomic.Bool // by one that a search was given
}

type positionKey struct{}

// CatchUp returns a context with which each connection to a standby, before it is used, waits until the standby has replayed
// every write acknowledged before this call, but not past a moment. caughtUp says of those that were used whether all had.
// A primary that cannot be asked means no.
func (s *Standby) CatchUp(ctx context.Context, until time.Time) (_ context.Context, caughtUp func() bool) {
	if s == nil {
		return ctx, func() bool { return true }
	}
	asking, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	p := &position{until: until}
	// What is inserted but not flushed counts: with synchronous_commit off it may have been acknowledged.
	if err := s.primary.QueryRow(asking, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&p.lsn); err != nil {
		return ctx, func() bool { return false }
	}
	return context.WithValue(ctx, positionKey{}, p), func() bool { return !p.missed.Load() }
}

// awaitReplay holds a connection back until its server has replayed what the context asks for.
func awaitReplay(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	p, asked := ctx.Value(positionKey{}).(*position)
	if !asked {
		return true, nil
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var replayed bool
		// A standby that was promoted replays no more, and lacks nothing.
		if err := conn.QueryRow(ctx, `SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, p.lsn).Scan(&replayed); err != nil {
			return false, ctx.Err()
		}
		if replayed {
			return true, nil
		}
		if !time.Now().Add(pause).Before(p.until) {
			p.missed.Store(true)
			return true, nil
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// StandbyLag says how far the standby is behind the primary; ok is false if there is none.
func (s *Standby) StandbyLag() (lag time.Duration, ok bool) {
	if s == nil {
		return 0, false
	}
	return time.Duration(s.lag.Load()), true
}

// Alone says whether there is a standby and the primary did not answer when it was last asked.
func (s *Standby) Alone() bool { return s != nil && s.alone.Load() }

// mark is where the primary was at a time.
type mark struct {
	lsn string
	at  time.Time
}

// Follow keeps count of the lag until ctx ends. It compares what the standby has replayed with where the primary was and
// when: the standby's own clock and times of commits cannot tell an idle primary from one that it has lost.
func (s *Standby) Follow(ctx context.Context) {
	if s == nil {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var marks []mark // that are not known to be replayed
	for {
		marks = s.look(ctx, marks)
		if len(marks) > 0 {
			s.lag.Store(int64(time.Since(marks[0].at)))
		} else {
			s.lag.Store(0)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *Standby) look(ctx context.Context, marks []mark) []mark {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now := mark{at: time.Now()}
	err := s.primary.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&now.lsn)
	if s.alone.Store(err != nil); err == nil {
		marks = append(marks[:min(len(marks), maxMarks-1)], now)
	}
	lsns := make([]string, len(marks))
	for i, m := range marks {
		lsns[i] = m.lsn
	}
	var replayed int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM unnest($1::text[]) lsn
		WHERE NOT pg_is_in_recovery() OR lsn::pg_lsn <= pg_last_wal_replay_lsn()`, lsns).Scan(&replayed); err != nil {
		return marks
	}
	return marks[replayed:]
}

// IsUnreachable says whether an error is about the way to the server, or about one that is starting, stopping or a standby
// that cannot be written to, and so likely to pass.
func IsUnreachable(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) ||
		hasCode(err, "57P01", "57P02", "57P03", "25006", "08000", "08003", "08006")
}
