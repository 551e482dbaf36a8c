package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
)

// batch is how many memories are indexed at once at most.
const batch = 64

// own is the index queue.
type own struct{ pool *pgxpool.Pool }

func newOwn(pool *pgxpool.Pool) own { return own{pool} }

func (o own) enqueue(ctx context.Context, tx pgx.Tx, r record.Record) error {
	return queue.EnqueuePostgres(ctx, tx, []record.Record{r})
}

func (o own) work(ctx context.Context, index indexFunc) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, name := range indexes {
		w := queue.Worker{
			Index: name, Store: queue.NewPostgres(o.pool), Batch: batch, Log: slog.New(slog.DiscardHandler),
			Indexer: indexer(func(ctx context.Context, records []record.Record) error {
				memories := make([]memory, len(records))
				for i, r := range records {
					memories[i] = memory{r.ID, r.Revision}
				}
				return index(ctx, name, memories)
			}),
		}
		running.Go(func() { w.Run(ctx) })
	}
	return func() { cancel(); running.Wait() }, nil
}

func (o own) left(ctx context.Context) (n int, err error) {
	err = o.pool.QueryRow(ctx, "SELECT count(*) FROM memory.index_queue").Scan(&n)
	return n, err
}

// indexer is an index made of a function.
type indexer func(ctx context.Context, records []record.Record) error

func (i indexer) Index(ctx context.Context, records []record.Record) error { return i(ctx, records) }
