package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/tests/lab/measure"
)

// crossing is a namespace searched in both ways on PostgreSQL.
type crossing struct {
	size int
	ways [2]way // exactly, and through the index
}

// way is what one of two ways took.
type way struct {
	times measure.Times
	cpu   measure.CPU
}

// measureCrossing fills a namespace of each size into one database, and searches each exactly and through the index.
func measureCrossing(ctx context.Context, f flags, tel *telemetry.Service) ([]crossing, error) {
	embedder, err := newEmbedder(tel)
	if err != nil {
		return nil, err
	}
	pool, drop, err := measure.Database(ctx, f.Postgres, tel)
	defer drop()
	if err != nil {
		return nil, err
	}
	store := sqldb.Store{Pool: pool}
	var searchers [2]*dense.Leg
	for i, upTo := range []int{math.MaxInt32 - 1, 0} {
		meter := tel.MeterProvider.Meter(telemetry.ScopeName)
		images := replica.New(ctx, store, replica.Config{}, meter, slog.New(slog.DiscardHandler)) // all are too large
		if searchers[i], err = dense.New(ctx, store, images, embedder, queue.New(store)); err != nil {
			return nil, err
		}
		searchers[i].ExactUpTo = upTo
	}
	total := 0
	for _, size := range f.Thresholds {
		total += size
	}
	say("thresholds: embedding")
	c, err := newCorpus(ctx, f.Seed, total)
	if err != nil {
		return nil, err
	}
	data, err := generate(ctx, c, total, embedder)
	if err != nil {
		return nil, err
	}
	crossings := make([]crossing, len(f.Thresholds))
	if _, err := bulk(ctx, pool, embedder, func() error {
		from := 0
		for i, size := range f.Thresholds {
			crossings[i].size = size
			if err := data.part(from, from+size).copyTo(ctx, pool, fmt.Sprint(size), model); err != nil {
				return err
			}
			from += size
		}
		return nil
	}); err != nil {
		return nil, err
	}
	say("thresholds: searching")
	var meter measure.CPUMeter
	for i := range warmUp + f.Queries {
		if i == warmUp {
			if meter, err = measure.MeterCPU(ctx, pool); err != nil {
				return nil, err
			}
		}
		vector, err := embedder.EmbedQuery(ctx, c.query())
		if err != nil {
			return nil, err
		}
		for j := range crossings {
			for k, searcher := range searchers {
				before, start := meter.Read(), time.Now()
				if _, err := searcher.Search(ctx, leg.Query{Namespace: fmt.Sprint(crossings[j].size), Vector: vector, Depth: f.Depth}); err != nil {
					return nil, err
				}
				if i >= warmUp {
					of := &crossings[j].ways[k]
					of.times = append(of.times, time.Since(start))
					of.cpu.Spent(before, meter.Read())
				}
			}
		}
	}
	return crossings, nil
}

// bareMeasured is a way of searching vectors in PostgreSQL by one statement that does nothing else.
type bareMeasured struct {
	name         string
	ef, again    int // how many the index looks for, and of those over bits how many are scored again
	times        measure.Times
	cpu          measure.CPU
	at10, at50   float64
	build        time.Duration
	bytesPerItem float64
}

// measureBare asks the index that there is by a statement that returns ids and scores alone, and if quantised is set, one
// over a bit per dimension, whose best are scored again.
func measureBare(ctx context.Context, f flags, pool *pgxpool.Pool, c corpus, data memories, embedder embed.Embedder, quantised bool) ([]bareMeasured, error) {
	ways := []bareMeasured{{ef: 50}, {ef: 100}, {ef: 200}, {ef: 400}, {ef: 800}}
	halfBytes, err := indexBytes(ctx, pool, `^vectors_[0-7]_subvector_idx`)
	if err != nil {
		return nil, err
	}
	for i := range ways {
		ways[i].name, ways[i].bytesPerItem = fmt.Sprintf("halfvec, ef %d", ways[i].ef), halfBytes/float64(len(data.ids))
	}
	dimensions := embedder.Model().Dimensions
	bits := fmt.Sprintf("binary_quantize(embedding::halfvec(%[1]d))::bit(%[1]d)", dimensions)
	if quantised {
		say("  quantised: building the index")
		start := time.Now()
		if err := build(ctx, pool, fmt.Sprintf(
			`CREATE INDEX vectors_bits ON dense.vectors USING hnsw ((%s) bit_hamming_ops) WITH (m = 16, ef_construction = 64) WHERE model_id = %d`, bits, model)); err != nil {
			return nil, err
		}
		built := time.Since(start)
		bytes, err := indexBytes(ctx, pool, `^vectors_[0-7]_binary_quantize_idx`)
		if err != nil {
			return nil, err
		}
		for _, times := range []int{4, 16} {
			ways = append(ways, bareMeasured{
				name: fmt.Sprintf("bits, %d × depth scored again", times), ef: min(max(200, times*f.Depth), 1000), again: times * f.Depth,
				build: built, bytesPerItem: bytes / float64(len(data.ids)),
			})
		}
	}
	say("  bare statements")
	t := newTruth(data)
	queries := min(f.Queries, 100)
	var meter measure.CPUMeter
	for i := range warmUp + queries {
		vector, err := embedder.EmbedQuery(ctx, c.query())
		if err != nil {
			return nil, err
		}
		var best []float64
		if i >= warmUp {
			best = t.best(vector, data.tags, f.Depth)[""]
		}
		if i == warmUp {
			if meter, err = measure.MeterCPU(ctx, pool); err != nil {
				return nil, err
			}
		}
		for j := range ways {
			way := &ways[j]
			before, start := meter.Read(), time.Now()
			hits, err := way.search(ctx, pool, bits, dimensions, f.Depth, vector)
			if err != nil {
				return nil, err
			}
			if i >= warmUp {
				way.times = append(way.times, time.Since(start))
				way.cpu.Spent(before, meter.Read())
				way.at10 += recall(hits, best, 10) / float64(queries)
				way.at50 += recall(hits, best, f.Depth) / float64(queries)
			}
		}
	}
	return ways, nil
}

// indexBytes is the size of the indexes whose names match a pattern.
func indexBytes(ctx context.Context, pool *pgxpool.Pool, pattern string) (bytes float64, err error) {
	return bytes, pool.QueryRow(ctx, `SELECT coalesce(sum(pg_relation_size(oid)), 0)::float8 FROM pg_class WHERE relname ~ $1`, pattern).Scan(&bytes)
}

// search returns the nearest vectors.
func (w *bareMeasured) search(ctx context.Context, pool *pgxpool.Pool, bits string, dimensions, depth int, vector []float32) (hits []leg.Hit, err error) {
	half := fmt.Sprintf(`embedding::halfvec(%d)`, dimensions)
	queried := fmt.Sprintf(`subvector(%s, 1, %[2]d)::halfvec(%[2]d)`, "%s", dimensions-1) // as the leg has it
	statement := fmt.Sprintf(`SELECT memory_id, 1 - (%[1]s <=> $1) FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d ORDER BY %[3]s <#> %[4]s LIMIT $3`,
		half, model, fmt.Sprintf(queried, half), fmt.Sprintf(queried, "$1::halfvec"))
	if w.again > 0 {
		statement = fmt.Sprintf(`
			SELECT memory_id, 1 - (%[1]s <=> $1) FROM (
				SELECT memory_id, embedding FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d
				ORDER BY %[3]s <~> binary_quantize($1::halfvec(%[4]d))::bit(%[4]d) LIMIT %[5]d
			) nearest ORDER BY %[1]s <=> $1 LIMIT $3`, half, model, bits, dimensions, w.again)
	}
	// One round trip: a batch outside of a transaction is one. Without sorting there is no way but through the index.
	batch := &pgx.Batch{}
	settings := map[string]string{"hnsw.ef_search": fmt.Sprint(w.ef), "jit": "off"}
	if w.again == 0 {
		settings["enable_sort"] = "off"
	}
	for name, value := range settings {
		batch.Queue("SELECT set_config($1, $2, true)", name, value)
	}
	batch.Queue(statement, pgvector.NewHalfVector(vector), namespace, depth).Query(func(rows pgx.Rows) (err error) {
		hits, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (hit leg.Hit, err error) {
			return hit, row.Scan(&hit.ID, &hit.Score)
		})
		return err
	})
	return hits, pool.SendBatch(ctx, batch).Close()
}
