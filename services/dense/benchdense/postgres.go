package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgvector/pgvector-go"

	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/measure"
	"github.com/triskele/triskele/services/queue"
)

// crossing is a namespace searched in both ways on PostgreSQL.
type crossing struct {
	size           int
	exact, indexed measure.Times
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
	var ways [2]*dense.Postgres
	for i, upTo := range []int{math.MaxInt32 - 1, 0} {
		if ways[i], err = dense.NewPostgres(ctx, pool, embedder, queue.NewPostgres(pool)); err != nil {
			return nil, err
		}
		ways[i].ExactUpTo = upTo
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
	for i := range warmUp + f.Queries {
		vector, err := embedder.EmbedQuery(ctx, c.query())
		if err != nil {
			return nil, err
		}
		for j := range crossings {
			of := &crossings[j]
			for way, times := range []*measure.Times{&of.exact, &of.indexed} {
				start := time.Now()
				if _, err := ways[way].Search(ctx, leg.Query{Namespace: fmt.Sprint(of.size), Vector: vector, Depth: f.Depth}); err != nil {
					return nil, err
				}
				if i >= warmUp {
					*times = append(*times, time.Since(start))
				}
			}
		}
	}
	return crossings, nil
}

// bitsMeasured is a way of searching vectors in PostgreSQL by statement.
type bitsMeasured struct {
	name         string
	times        measure.Times
	at10, at50   float64
	build        time.Duration
	bytesPerItem float64
}

// measureBits compares the index that there is with one over a bit per dimension, whose best are scored again.
func measureBits(ctx context.Context, f flags, pool *pgxpool.Pool, c corpus, data memories, embedder embed.Embedder) ([]bitsMeasured, error) {
	say("  quantised: building the index")
	dimensions := embedder.Model().Dimensions
	bits := fmt.Sprintf("binary_quantize(embedding::halfvec(%[1]d))::bit(%[1]d)", dimensions)
	start := time.Now()
	if err := build(ctx, pool, fmt.Sprintf(
		`CREATE INDEX vectors_bits ON dense.vectors USING hnsw ((%s) bit_hamming_ops) WITH (m = 16, ef_construction = 64) WHERE model_id = %d`, bits, model)); err != nil {
		return nil, err
	}
	ways := []bitsMeasured{{name: "halfvec, ef 200"}, {name: "bits, 4 × depth scored again"}, {name: "bits, 16 × depth scored again"}}
	built := time.Since(start)
	sizes := map[string]float64{}
	for name, pattern := range map[string]string{"halfvec": `^vectors_[0-7]_subvector_idx`, "bits": `^vectors_[0-7]_binary_quantize_idx`} {
		var bytes int64
		if err := pool.QueryRow(ctx, `SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM pg_class WHERE relname ~ $1`, pattern).Scan(&bytes); err != nil {
			return nil, err
		}
		sizes[name] = float64(bytes) / float64(len(data.ids))
	}
	ways[0].bytesPerItem = sizes["halfvec"]
	ways[1].build, ways[2].build, ways[1].bytesPerItem, ways[2].bytesPerItem = built, built, sizes["bits"], sizes["bits"]
	t := newTruth(data)
	queries := min(f.Queries, 100)
	for i := range warmUp + queries {
		vector, err := embedder.EmbedQuery(ctx, c.query())
		if err != nil {
			return nil, err
		}
		var best []float64
		if i >= warmUp {
			best = t.best(vector, data.tags, f.Depth)[""]
		}
		for j, again := range []int{0, 4, 16} {
			start := time.Now()
			hits, err := byStatement(ctx, pool, bits, dimensions, again*f.Depth, f.Depth, vector)
			if err != nil {
				return nil, err
			}
			if i >= warmUp {
				way := &ways[j]
				way.times = append(way.times, time.Since(start))
				way.at10 += recall(hits, best, 10) / float64(queries)
				way.at50 += recall(hits, best, f.Depth) / float64(queries)
			}
		}
	}
	return ways, nil
}

// byStatement returns the nearest vectors by the index over halves or, if some are to be scored again, that over bits.
func byStatement(ctx context.Context, pool *pgxpool.Pool, bits string, dimensions, again, depth int, vector []float32) (hits []leg.Hit, err error) {
	half := fmt.Sprintf(`embedding::halfvec(%d)`, dimensions)
	queried := fmt.Sprintf(`subvector(%s, 1, %[2]d)::halfvec(%[2]d)`, "%s", dimensions-1) // as dense.create_index has it
	statement := fmt.Sprintf(`SELECT memory_id, 1 - (%[1]s <=> $1) FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d ORDER BY %[3]s <#> %[4]s LIMIT $3`,
		half, model, fmt.Sprintf(queried, half), fmt.Sprintf(queried, "$1::halfvec"))
	if again > 0 {
		statement = fmt.Sprintf(`
			SELECT memory_id, 1 - (%[1]s <=> $1) FROM (
				SELECT memory_id, embedding FROM dense.vectors WHERE namespace = $2 AND model_id = %[2]d
				ORDER BY %[3]s <~> binary_quantize($1::halfvec(%[4]d))::bit(%[4]d) LIMIT %[5]d
			) nearest ORDER BY %[1]s <=> $1 LIMIT $3`, half, model, bits, dimensions, again)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL hnsw.ef_search = %d`, min(max(200, again), 1000))); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, statement, pgvector.NewHalfVector(vector), namespace, depth)
		if err != nil {
			return err
		}
		hits, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (hit leg.Hit, err error) {
			return hit, row.Scan(&hit.ID, &hit.Score)
		})
		return err
	})
	return hits, err
}
