package measure

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// CPU is the processor time that something took, which a machine with other work to do changes less than the time that
// passed. What could not be measured is negative.
type CPU struct{ Process, Server time.Duration }

// CPUMeter measures the processor time of this process and of the PostgreSQL processes that serve a pool, as far as the server
// runs on this machine, which is Linux.
type CPUMeter struct{ backends []int32 }

// MeterCPU returns a meter for the connections that the pool has; without a pool, for this process alone.
func MeterCPU(ctx context.Context, pool *pgxpool.Pool) (CPUMeter, error) {
	if pool == nil {
		return CPUMeter{}, nil
	}
	rows, err := pool.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`)
	if err != nil {
		return CPUMeter{}, err
	}
	backends, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	return CPUMeter{backends}, err
}

// Read returns the times so far.
func (m CPUMeter) Read() CPU {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return CPU{-1, -1}
	}
	c := CPU{Process: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
	for _, pid := range m.backends {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		var onCPU int64
		if err == nil {
			_, err = fmt.Sscan(string(text), &onCPU)
		}
		if err != nil {
			c.Server = -1
			break
		}
		c.Server += time.Duration(onCPU)
	}
	return c
}

// Spent adds what was spent between two readings.
func (c *CPU) Spent(from, to CPU) {
	c.Process = sum(c.Process, from.Process, to.Process)
	c.Server = sum(c.Server, from.Server, to.Server)
}

// sum adds the difference between two readings, unless one of the three is unknown.
func sum(total, from, to time.Duration) time.Duration {
	if min(total, from, to) < 0 {
		return -1
	}
	return total + to - from
}

// Each writes the milliseconds of each of n equal things, in this process and in the server.
func (c CPU) Each(n int) (process, server string) {
	each := func(d time.Duration) string {
		if d < 0 {
			return "?"
		}
		return Milliseconds(d / time.Duration(max(n, 1)))
	}
	return each(c.Process), each(c.Server)
}
