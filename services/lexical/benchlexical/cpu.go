package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cpu tells the processor time that a search takes in this process and in the server's. Unlike the time on the clock it
// hardly depends on what else the machine does.
type cpu struct{ server []string } // files

func newCPU(ctx context.Context, pool *pgxpool.Pool) (cpu, error) {
	rows, err := pool.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`)
	if err != nil {
		return cpu{}, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	c := cpu{}
	for _, pid := range pids {
		c.server = append(c.server, fmt.Sprintf("/proc/%d/schedstat", pid))
	}
	return c, err
}

// used returns the time used so far; it stays 0 where the system does not say, or the server is elsewhere.
func (c cpu) used() (total time.Duration) {
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range append(threads, c.server...) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err == nil {
			total += time.Duration(ran)
		}
	}
	return total
}
