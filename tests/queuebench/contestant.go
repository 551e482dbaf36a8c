package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/record"
)

const (
	namespace = "bench"
	// connections is how many each contestant has.
	connections = 16
)

// indexes are what each memory goes into.
var indexes = []string{"dense", "graph"}

// backlog is a way to keep the indexes in step.
type backlog interface {
	// enqueue notes, in the transaction that writes a memory, that its indexes have to follow.
	enqueue(ctx context.Context, tx pgx.Tx, r record.Record) error
	// work starts the workers of both indexes, which call index.
	work(ctx context.Context, index indexFunc) (stop func(), err error)
	// left counts what the workers have yet to do.
	left(ctx context.Context) (int, error)
}

// indexFunc indexes memories, at most 64.
type indexFunc func(ctx context.Context, index string, memories []memory) error

// memory is what an index knows of one.
type memory struct {
	id       uuid.UUID
	revision int64
}

// contestant is a backlog with a database of its own, and what was measured of it.
type contestant struct {
	name    string
	admin   *pgx.Conn
	base    string // database
	pool    *pgxpool.Pool
	backlog backlog  // nil enqueues nothing
	tables  []string // of the backlog

	records []record.Record // stored in this round, as last written
	next    int             // to be edited

	mu      sync.Mutex
	written map[memory]time.Time // when the revision was committed
	lags    []time.Duration      // of all embeddings while draining
	// steadyLags are those under the steady load.
	steadyLags []time.Duration
	serial     sync.Mutex // the embedder serves one call at a time

	stores, edits, drained phase
	indexed                int // by drains
}

// phase is what one kind of work took.
type phase struct {
	times []time.Duration
	took  time.Duration // until the indexes were current, and until there was nothing left to do
	empty time.Duration
	wal   int64 // bytes
}

func newContestant(ctx context.Context, s settings, name string) (_ *contestant, err error) {
	c := &contestant{name: name, tables: []string{"river_job", "river_leader", "river_queue"}, base: "queuebench_" + strings.ReplaceAll(uuid.NewString(), "-", ""), written: map[memory]time.Time{}}
	if c.admin, err = pgx.Connect(ctx, s.URL); err != nil {
		return nil, err
	}
	if _, err := c.admin.Exec(ctx, "CREATE DATABASE "+c.base); err != nil {
		return nil, err
	}
	address, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("the PostgreSQL URL cannot be read")
	}
	address.Path = "/" + c.base
	if err := migrate(ctx, address.String()); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	if c.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if _, err := c.pool.Exec(ctx, `
		INSERT INTO memory.namespaces (name) VALUES ('bench');
		CREATE SCHEMA bench;
		CREATE TABLE bench.indexed (index_name text, memory_id uuid, revision bigint NOT NULL, PRIMARY KEY (index_name, memory_id));`); err != nil {
		return nil, err
	}
	switch name {
	case "queue":
		c.backlog, c.tables = newOwn(c.pool), []string{"index_queue"}
	case "river":
		c.backlog, err = newRiver(ctx, c.pool, false, river.UniqueOpts{})
	case "river, batched":
		c.backlog, err = newRiver(ctx, c.pool, true, river.UniqueOpts{})
	case "river, unique":
		c.backlog, err = newRiver(ctx, c.pool, true, uniqueJobs)
	}
	return c, err
}

func migrate(ctx context.Context, url string) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	b, err := backend.OpenPostgres(ctx, url, process.Service("queuebench"))
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	_, err = b.Migrate(ctx)
	return err
}

func (c *contestant) drop(ctx context.Context) {
	c.pool.Close()
	_, _ = c.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+c.base+" WITH (FORCE)")
	_ = c.admin.Close(ctx)
}

// measure does one write and adds what it took to a phase.
func (c *contestant) measure(ctx context.Context, p *phase, write func(context.Context) error) error {
	before, err := c.wal(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := write(ctx); err != nil {
		return err
	}
	p.times = append(p.times, time.Since(begun))
	after, err := c.wal(ctx)
	p.wal += after - before
	return err
}

// wal is how many bytes the server has written to its log. Nobody but the contestant whose turn it is writes.
func (c *contestant) wal(ctx context.Context) (n int64, err error) {
	err = c.admin.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n)
	return n, err
}

func (c *contestant) store(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	r := record.Record{Namespace: namespace, ID: id, Revision: 1, Content: "The Heron crane is serviced in spring, before the ice on the river breaks."}
	if err := c.commit(ctx, &r, `
		INSERT INTO memory.memories (namespace, id, content, revision, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, created_at, updated_at)
		VALUES ($1, $2, $3, $4, '', '{}', '{}', '', '{}', 0.5, false, '', now(), now()) RETURNING sequence`); err != nil {
		return err
	}
	c.records = append(c.records, r)
	return nil
}

func (c *contestant) edit(ctx context.Context) error {
	r := &c.records[c.next%len(c.records)]
	c.next++
	r.Revision++
	return c.commit(ctx, r, `
		UPDATE memory.memories SET content = $3, revision = $4, sequence = nextval('memory.write_sequence')
		WHERE namespace = $1 AND id = $2 RETURNING sequence`)
}

func (c *contestant) commit(ctx context.Context, r *record.Record, statement string) error {
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, statement, r.Namespace, r.ID, r.Content, r.Revision).Scan(&r.Sequence); err != nil {
			return err
		}
		if c.backlog == nil {
			return nil
		}
		return c.backlog.enqueue(ctx, tx, *r)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[memory{r.ID, r.Revision}] = time.Now()
	return err
}

// index is the work there is to do: a call of an embedder that serves one at a time, and a statement.
func (c *contestant) index(s settings) indexFunc {
	return func(ctx context.Context, index string, memories []memory) error {
		c.serial.Lock()
		time.Sleep(s.Call + time.Duration(len(memories))*s.Each)
		c.serial.Unlock()
		ids, revisions := make([]uuid.UUID, len(memories)), make([]int64, len(memories))
		for i, m := range memories {
			ids[i], revisions[i] = m.id, m.revision
		}
		if _, err := c.pool.Exec(ctx, `
			INSERT INTO bench.indexed AS i SELECT DISTINCT ON (m.id) $1, m.id, m.revision FROM unnest($2::uuid[], $3::bigint[]) AS m (id, revision)
			ORDER BY m.id, m.revision DESC
			ON CONFLICT (index_name, memory_id) DO UPDATE SET revision = excluded.revision WHERE i.revision < excluded.revision`,
			index, ids, revisions); err != nil {
			return err
		}
		now := time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, m := range memories {
			if at, ok := c.written[m]; ok {
				c.lags = append(c.lags, now.Sub(at))
			}
		}
		return nil
	}
}

// behind counts what the indexes do not know of yet.
func (c *contestant) behind(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `
		SELECT count(*) FROM memory.memories m CROSS JOIN unnest($1::text[]) AS x (name)
		LEFT JOIN bench.indexed i ON i.index_name = x.name AND i.memory_id = m.id AND i.revision = m.revision
		WHERE m.namespace = $2 AND i.memory_id IS NULL`, indexes, namespace).Scan(&n)
	return n, err
}

// until returns when a count is 0.
func until(ctx context.Context, count func(context.Context) (int, error)) error {
	for ticker := time.NewTicker(20 * time.Millisecond); ; {
		n, err := count(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// drain works off what the writes have left.
func (c *contestant) drain(ctx context.Context, s settings) error {
	n, err := c.behind(ctx)
	if err != nil {
		return err
	}
	before, err := c.wal(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	stop, err := c.backlog.work(ctx, c.index(s))
	if err != nil {
		return err
	}
	defer stop()
	if err := until(ctx, c.behind); err != nil {
		return err
	}
	c.drained.took += time.Since(begun)
	if err := until(ctx, c.backlog.left); err != nil {
		return err
	}
	c.drained.empty += time.Since(begun)
	c.indexed += n
	after, err := c.wal(ctx)
	c.drained.wal += after - before
	return err
}

// steady stores memories at a steady rate while the workers run, and keeps how long each took to be indexed.
func (c *contestant) steady(ctx context.Context, s settings) error {
	stop, err := c.backlog.work(ctx, c.index(s))
	if err != nil {
		return err
	}
	defer stop()
	time.Sleep(500 * time.Millisecond) // the workers have nothing to do
	c.mu.Lock()
	earlier := c.lags
	c.lags = nil
	c.written = map[memory]time.Time{}
	c.mu.Unlock()
	ticker := time.NewTicker(time.Second / time.Duration(s.Rate))
	defer ticker.Stop()
	for end := time.Now().Add(s.Steady); time.Now().Before(end); <-ticker.C {
		if err := c.store(ctx); err != nil {
			return err
		}
	}
	if err := until(ctx, c.behind); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steadyLags = append(c.steadyLags, c.lags...)
	c.lags, c.records, c.next = earlier, nil, 0
	return nil
}

func (c *contestant) String() string { return fmt.Sprintf("%-14s", c.name) }
