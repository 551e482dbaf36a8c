// Command queuebench puts the same load on the index queue and on a job library, riverqueue/river, on PostgreSQL and in
// turn, and prints what each costs: a write, the way through a backlog, and the time until a memory is indexed.
//
// River is used in three ways: its workers index one memory at a time, as they are made to do; or they hand their jobs to
// a collector that indexes them in batches, as one would build it on top; or that with unique jobs, so that a memory is
// indexed once however often it was edited, at the price of losing edits. "none" enqueues nothing: what a write costs anyway.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

// settings are the load. All contestants get the same.
type settings struct {
	URL    string
	Rounds int
	Stores int // memories stored in a round, each in a transaction of its own
	Edits  int // changes of them, each in a transaction of its own
	Rate   int // writes per second while lag is measured
	Steady time.Duration
	Call   time.Duration // one call of the embedder
	Each   time.Duration // and for each memory in it
}

func main() {
	var s settings
	flag.StringVar(&s.URL, "postgres", os.Getenv("TRISKELE_TEST_POSTGRES"), "PostgreSQL `URL`; databases are made on it and dropped")
	flag.IntVar(&s.Rounds, "rounds", 2, "how often everything is done")
	flag.IntVar(&s.Stores, "stores", 400, "memories stored in a round")
	flag.IntVar(&s.Edits, "edits", 800, "changes of those memories in a round")
	flag.IntVar(&s.Rate, "rate", 40, "writes per second while lag is measured")
	flag.DurationVar(&s.Steady, "steady", 3*time.Second, "how long lag is measured in a round")
	flag.DurationVar(&s.Call, "call", 2*time.Millisecond, "time of one call of the embedder")
	flag.DurationVar(&s.Each, "each", 100*time.Microsecond, "and for each memory in the call")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "queuebench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	var all []*contestant
	defer func() {
		for _, c := range all {
			c.drop(context.WithoutCancel(ctx))
		}
	}()
	for _, name := range []string{"none", "queue", "river", "river, batched", "river, unique"} {
		c, err := newContestant(ctx, s, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	if err := describe(ctx, s, all[0]); err != nil {
		return err
	}
	for round := range s.Rounds {
		order := append(slices.Clone(all[round%len(all):]), all[:round%len(all)]...)
		if err := write(ctx, s, order); err != nil {
			return err
		}
		for _, c := range order {
			if c.backlog == nil {
				continue
			}
			if err := c.drain(ctx, s); err != nil {
				return fmt.Errorf("%s: drain: %w", c.name, err)
			}
			if err := c.steady(ctx, s); err != nil {
				return fmt.Errorf("%s: steady load: %w", c.name, err)
			}
		}
	}
	return report(ctx, all)
}

// write lets the contestants store and edit in turn, one write each.
func write(ctx context.Context, s settings, order []*contestant) error {
	for i := range s.Stores + s.Edits {
		for _, c := range order {
			p, write := &c.stores, c.store
			if i >= s.Stores {
				p, write = &c.edits, c.edit
			}
			if err := c.measure(ctx, p, write); err != nil {
				return fmt.Errorf("%s: write: %w", c.name, err)
			}
		}
	}
	return nil
}
