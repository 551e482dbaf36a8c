package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// describe prints what the figures depend on.
func describe(ctx context.Context, s settings, c *contestant) error {
	var server string
	if err := c.admin.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync') ||
		', synchronous_commit ' || current_setting('synchronous_commit') || ', shared_buffers ' || current_setting('shared_buffers')`).Scan(&server); err != nil {
		return err
	}
	fmt.Printf("%s, %d cores, %s; %s; river %s, fetch cooldown %v, poll %v; %d connections each\n", runtime.GOARCH, runtime.NumCPU(), runtime.Version(), server, riverVersion(), cooldown, poll, connections)
	fmt.Printf("%d rounds of %d stores and %d edits of them, each a transaction with %d indexes to follow; batches of %d;\n"+
		"an embedder that serves one call at a time, %v and %v for each memory\n",
		s.Rounds, s.Stores, s.Edits, len(indexes), batch, s.Call, s.Each)
	return nil
}

func riverVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/riverqueue/river" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// report prints what was measured. It ends the contestants' connections: a server process counts rows when it ends.
func report(ctx context.Context, all []*contestant) error {
	none := all[0]
	fmt.Println("\nwriting: time of a transaction, as a ratio to one that enqueues nothing, and its write-ahead log")
	fmt.Printf("  %-14s  %31s  %31s  %9s\n", "", "store p50 / p95", "edit p50 / p95", "log/write")
	for _, c := range all {
		fmt.Printf("  %s  %s  %s  %6.0f B\n", c, spread(c.stores, none.stores), spread(c.edits, none.edits),
			float64(c.stores.wal+c.edits.wal)/float64(len(c.stores.times)+len(c.edits.times)))
	}
	fmt.Println("\ndraining what the writes left: a memory in an index is one to be done, however often it was edited")
	fmt.Printf("  %-14s  %6s  %10s  %7s  %9s  %9s  %12s\n", "", "done", "embeddings", "current", "empty", "done/s", "log/done")
	for _, c := range all[1:] {
		fmt.Printf("  %s  %6d  %10d  %6.2fs  %8.2fs  %9.0f  %10.0f B\n", c, c.indexed, len(c.lags), c.drained.took.Seconds(), c.drained.empty.Seconds(),
			float64(c.indexed)/c.drained.empty.Seconds(), float64(c.drained.wal)/float64(c.indexed))
	}
	fmt.Println("\nlag under a steady load: from the commit until the memory is in an index")
	fmt.Printf("  %-14s  %9s  %9s  %9s\n", "", "p50", "p95", "max")
	for _, c := range all[1:] {
		fmt.Printf("  %s  %9s  %9s  %9s\n", c, millis(percentile(c.steadyLags, .5)), millis(percentile(c.steadyLags, .95)), millis(percentile(c.steadyLags, 1)))
	}
	fmt.Println("\nrows inserted, updated and deleted in the queue's own tables, and left there, all of it done")
	for _, c := range all[1:] {
		written, left, err := c.rows(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("  %s  %.1f for each write, %d left\n", c, float64(written)/float64(c.writes()), left)
	}
	return nil
}

// writes is how many transactions were made in all.
func (c *contestant) writes() int {
	return len(c.stores.times) + len(c.edits.times) + len(c.steadyLags)/len(indexes)
}

// rows counts the rows that were written to the queue's tables, and those that are in them.
func (c *contestant) rows(ctx context.Context) (written, left int64, err error) {
	for _, table := range c.tables {
		schema := "public"
		if table == "index_queue" {
			schema = "memory"
		}
		var n int64
		if err := c.pool.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s.%s", schema, table)).Scan(&n); err != nil {
			return 0, 0, err
		}
		left += n
	}
	c.pool.Reset() // a server process counts what it wrote when it ends
	deadline := time.Now().Add(5 * time.Second)
	for last := int64(-1); written != last || written == 0; {
		last = written
		time.Sleep(200 * time.Millisecond)
		if err := c.pool.QueryRow(ctx, `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE relname = ANY($1)`, c.tables).Scan(&written); err != nil {
			return 0, 0, err
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return written, left, nil
}

func spread(p, base phase) string {
	ratio := func(share float64) float64 {
		return float64(percentile(p.times, share)) / float64(percentile(base.times, share))
	}
	return fmt.Sprintf("%8s %8s  %4.2f %4.2f", millis(percentile(p.times, .5)), millis(percentile(p.times, .95)), ratio(.5), ratio(.95))
}

// percentile is the least time that a share of the times does not exceed.
func percentile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func millis(d time.Duration) string {
	return strings.TrimSpace(fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)))
}
