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

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

const (
	// lookEvery is how often the lag of a standby is measured, and lookTime the timeout of a measurement.
	lookEvery, lookTime = time.Second, time.Second
	// maxMarks limits the positions that await replay.
	maxMarks = 3600
	// firstPause and maxPause bound the pause between two checks of the replayed position.
	firstPause, maxPause = time.Millisecond, 20 * time.Millisecond
)

// Standby is the pool of the database's hot standbys, where searches read. A nil Standby means the primary.
type Standby struct {
	primary, pool *pgxpool.Pool
	lag           atomic.Int64 // nanoseconds
	alone         atomic.Bool
}

// OpenStandby returns a Standby of primary's database. It does not wait for the servers.
func OpenStandby(ctx context.Context, url string, primary *pgxpool.Pool, tel *telemetry.Service) (*Standby, error) {
	pool, err := open(ctx, url, tel, tel.Name+"-read", awaitReplay)
	if err != nil {
		return nil, err
	}
	s := &Standby{primary: primary, pool: pool}
	telemetry.Must(tel.MeterProvider.Meter(telemetry.ScopeName).Float64ObservableGauge("triskele.standby.lag", metric.WithUnit("s"),
		metric.WithDescription("Replay delay of the standby on which a service searches, as the service last measured it."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(time.Duration(s.lag.Load()).Seconds())
			return nil
		})))
	return s, nil
}

// Or returns the pool of the standby, or primary if there is none.
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

// position is the WAL position that a search must see.
type position struct {
	lsn    string
	until  time.Time
	missed atomic.Bool // by a connection in use
}

type positionKey struct{}

// CatchUp returns a context for reads of a standby. Each connection then waits, until at most the given time, for the
// standby to replay every write acknowledged before this call. caughtUp reports whether all connections used had
// replayed them. It reports false if the primary does not answer.
func (s *Standby) CatchUp(ctx context.Context, until time.Time) (_ context.Context, caughtUp func() bool) {
	if s == nil {
		return ctx, func() bool { return true }
	}
	asking, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	p := &position{until: until}
	// The inserted position: with synchronous_commit off, unflushed writes may be acknowledged.
	if err := s.primary.QueryRow(asking, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&p.lsn); err != nil {
		return ctx, func() bool { return false }
	}
	return context.WithValue(ctx, positionKey{}, p), func() bool { return !p.missed.Load() }
}

// awaitReplay delays a connection until its server has replayed the context's position.
func awaitReplay(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	p, asked := ctx.Value(positionKey{}).(*position)
	if !asked {
		return true, nil
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var replayed bool
		// A promoted standby replays no more, and lacks nothing.
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

// StandbyLag returns how far the standby is behind the primary; ok is false if there is none.
func (s *Standby) StandbyLag() (lag time.Duration, ok bool) {
	if s == nil {
		return 0, false
	}
	return time.Duration(s.lag.Load()), true
}

// Alone reports whether there is a standby and the primary did not answer when last asked.
func (s *Standby) Alone() bool { return s != nil && s.alone.Load() }

// mark is the primary's position at a time.
type mark struct {
	lsn string
	at  time.Time
}

// Follow measures the lag until ctx ends. It compares the standby's replayed position with the primary's recorded
// positions. The standby's own clock and commit times cannot tell an idle primary from a lost one.
func (s *Standby) Follow(ctx context.Context) {
	if s == nil {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var marks []mark // not known to be replayed
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
	lsns := slice.Map(marks, func(m mark) string { return m.lsn })
	var replayed int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM unnest($1::text[]) lsn
		WHERE NOT pg_is_in_recovery() OR lsn::pg_lsn <= pg_last_wal_replay_lsn()`, lsns).Scan(&replayed); err != nil {
		return marks
	}
	return marks[replayed:]
}

// IsNodeAway reports whether the server answered that it cannot reach the node that has the rows.
func IsNodeAway(err error) bool { return hasCode(err, "08000", "08001", "08003", "08006") }

// IsUnreachable reports whether an error is likely to pass: the connection failed, or the server is starting,
// stopping or a read-only standby.
func IsUnreachable(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) ||
		IsNodeAway(err) || hasCode(err, "57P01", "57P02", "57P03", "25006")
}
