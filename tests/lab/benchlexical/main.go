// Command benchlexical measures the lexical leg on PostgreSQL as the number of memories in one namespace grows: the
// scorers side by side, in one process on one server. It writes a report and a plot.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/tests/lab/measure"
)

type flags struct {
	Postgres string        `help:"Connection URL of a server on which databases may be created." required:"" env:"TRISKELE_TEST_POSTGRES" placeholder:"URL"`
	Sizes    []int         `help:"Numbers of memories." default:"20000,200000,1000000"`
	Queries  int           `help:"Queries per size." default:"500"`
	Depth    int           `help:"Hits asked for." default:"50"`
	Deadline time.Duration `help:"Of each search." default:"1s"`
	Writes   int           `help:"Memories stored to measure writing." default:"1024"`
	Seed     uint64        `help:"Of the corpus." default:"1"`
	Out      string        `help:"Folder for lexical.md and lexical.svg." required:"" placeholder:"DIR"`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("benchlexical"))
	measure.Main(func(ctx context.Context) error { return run(ctx, f) })
}

func run(ctx context.Context, f flags) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	var measured []measurement
	for _, size := range f.Sizes {
		fmt.Fprintf(os.Stderr, "%d memories\n", size)
		m, err := measureSize(ctx, f, size, process.Service("bench"))
		if err != nil {
			return fmt.Errorf("%d memories: %w", size, err)
		}
		measured = append(measured, m)
		if err := write(f, measured); err != nil {
			return err
		}
	}
	return nil
}

// measurement is what one size gave.
type measurement struct {
	size        int
	server      string // its version
	loadAverage string
	load        time.Duration
	scorers     []scorerMeasurement
	bytes       map[string]float64
	write1      [2]time.Duration // per memory, with and without the index, alone
	write100    [2]time.Duration // and a hundred at a time
}

// scorerMeasurement is what one scorer gave.
type scorerMeasurement struct {
	name              string
	scorer            triskelev1.Scorer
	filter            record.Filter
	times             []time.Duration // in order
	rows              float64         // table rows and index entries read, mean
	found             float64         // share of queries whose source is among the first ten
	truncated, failed int
}

// at returns a percentile.
func (s scorerMeasurement) at(percent int) time.Duration {
	return s.times[min(len(s.times)*percent/100, len(s.times)-1)]
}

func measureSize(ctx context.Context, f flags, size int, tel *telemetry.Service) (measurement, error) {
	m := measurement{size: size}
	pool, drop, err := measure.Database(ctx, f.Postgres, tel)
	defer drop()
	if err != nil {
		return m, err
	}
	l, err := load(ctx, pool, f.Seed, size)
	if err != nil {
		return m, err
	}
	m.load = l.took
	fmt.Fprintf(os.Stderr, "  loaded in %v\n", l.took.Round(time.Second))
	if m.bytes, err = bytesPerMemory(ctx, pool, size); err != nil {
		return m, err
	}
	if err := m.search(ctx, f, pool, l, tel); err != nil {
		return m, err
	}
	m.loadAverage = "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.loadAverage, _, _ = strings.Cut(string(text), " ")
	}
	if err := pool.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version')").Scan(&m.server); err != nil {
		return m, err
	}
	for _, w := range []struct {
		to    *[2]time.Duration
		batch int
	}{{&m.write1, 1}, {&m.write100, 100}} {
		with, without, err := writeCost(ctx, pool, f.Seed+1, f.Writes, w.batch)
		if err != nil {
			return m, err
		}
		*w.to = [2]time.Duration{with, without}
	}
	return m, nil
}

// search asks every query of every scorer, in turns.
func (m *measurement) search(ctx context.Context, f flags, pool *pgxpool.Pool, l loaded, tel *telemetry.Service) error {
	store := sqldb.Store{Pool: pool}
	images := replica.New(ctx, store, replica.DefaultConfig(), tel.MeterProvider.Meter(telemetry.ScopeName), slog.New(slog.DiscardHandler))
	searcher := lexical.New(store, images, lexical.DefaultConfig())
	random := newCorpus(f.Seed + 2)
	ask := func(query string, by scorerMeasurement) (leg.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, f.Deadline)
		defer cancel()
		return searcher.Search(ctx, leg.Query{Namespace: namespace, Text: query, Depth: f.Depth, Scorer: by.scorer, Filter: by.filter})
	}
	m.scorers = []scorerMeasurement{{name: "bm25", scorer: triskelev1.Scorer_SCORER_BM25}, {name: "ts_rank", scorer: triskelev1.Scorer_SCORER_TS_RANK}}
	for _, tag := range []string{"tenth", "hundredth", "thousandth"} {
		m.scorers = append(m.scorers, scorerMeasurement{name: "bm25 of a " + tag, scorer: triskelev1.Scorer_SCORER_BM25, filter: record.Filter{TagsAny: []string{tag}}})
	}
	loading, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	start := time.Now()
	if view, err := images.View(loading, namespace, replica.Need{}, 1); err != nil {
		return err
	} else {
		view.Close()
	}
	fmt.Fprintf(os.Stderr, "  in memory after %v\n", time.Since(start).Round(time.Millisecond))
	const warmUp = 50
	for i := range warmUp + f.Queries {
		source := random.random.IntN(m.size)
		query := random.query(l.contents[source])
		for j := range m.scorers {
			s := &m.scorers[(i+j)%len(m.scorers)]
			var read, after int64
			count := i < warmUp && i%5 == 0 // counting takes statements of its own, so not while timing
			if count {
				read = rowsRead(ctx, pool)
			}
			start := time.Now()
			result, err := ask(query, *s)
			took := time.Since(start)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if count {
				after = rowsRead(ctx, pool)
				s.rows += float64(after-read) / (warmUp / 5)
			}
			if i < warmUp {
				continue
			}
			s.times = append(s.times, took)
			if err != nil {
				s.failed++
			}
			if result.State == triskelev1.LegState_LEG_STATE_TRUNCATED {
				s.truncated++
			}
			for rank, hit := range result.Hits {
				if rank < 10 && hit.ID == l.ids[source] {
					s.found += 1 / float64(f.Queries)
				}
			}
		}
	}
	for i := range m.scorers {
		slices.Sort(m.scorers[i].times)
	}
	return nil
}

// rowsRead returns how many rows and index entries the server has read for this database.
func rowsRead(ctx context.Context, pool *pgxpool.Pool) (read int64) {
	for _, c := range pool.AcquireAllIdle(ctx) {
		_, _ = c.Exec(ctx, "SELECT pg_stat_force_next_flush()")
		c.Release()
	}
	_ = pool.QueryRow(ctx, `SELECT sum(pg_stat_get_tuples_returned(oid) + pg_stat_get_tuples_fetched(oid)) FROM pg_class
		WHERE relnamespace IN ('lexical'::regnamespace, 'memory'::regnamespace)`).Scan(&read)
	return read
}

// bytesPerMemory returns the size of each part of the database, per memory.
func bytesPerMemory(ctx context.Context, pool *pgxpool.Pool, size int) (map[string]float64, error) {
	sizes := map[string]float64{}
	rows, err := pool.Query(ctx, `
		SELECT part, sum(bytes)::float8 FROM (
			SELECT CASE WHEN n.nspname = 'memory' THEN 'memories'
				WHEN c.relname ~ '^documents' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'gin') THEN 'GIN index, for ts_rank'
				WHEN c.relname ~ '^documents' THEN 'words and tsvectors' ELSE 'settings' END AS part,
				pg_relation_size(c.oid) + coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) AS bytes
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname IN ('memory', 'lexical') AND c.relkind IN ('r', 'i')
		) parts GROUP BY part`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var part string
		var bytes float64
		if err := rows.Scan(&part, &bytes); err != nil {
			return nil, err
		}
		sizes[part] = bytes / float64(size)
	}
	return sizes, rows.Err()
}
