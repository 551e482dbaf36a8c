package lexical

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// settingsLock is the key of an advisory lock. Transactions that write a namespace's index share it. A transaction that
// changes the namespace's settings holds it exclusively, so that no document stays indexed by former settings.
const settingsLock = `hashtextextended('lexical settings of ' || namespace, 0)`

// PostgresIndex writes the forward index in the record's own transaction.
type PostgresIndex struct{ splitter }

// Prepare splits records into words. put adds or replaces documents of records, these or others. A document whose words have not
// changed is not written.
func (p *PostgresIndex) Prepare(ctx context.Context, records []record.Record) (put func(context.Context, sqldb.Tx, []record.Record) error) {
	ready := p.split(ctx, records, true)
	return func(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
		return putPostgres(ctx, tx.Postgres, records, ready)
	}
}

func putPostgres(ctx context.Context, tx pgx.Tx, records []record.Record, ready split) error {
	n := len(records)
	namespaces, ids, vectors, terms := make([]string, n), make([]uuid.UUID, n), make([]string, n), make([][]byte, n)
	for i, r := range records {
		namespaces[i], ids[i] = r.Namespace, r.ID
	}
	settings, err := lockSettings(ctx, tx, namespaces)
	if err != nil {
		return err
	}
	rows, err := ready.in(ctx, records, settings)
	if err != nil {
		return err
	}
	for i, row := range rows {
		vectors[i], terms[i] = row.tsvector, row.terms
	}
	// The order prevents deadlocks of transactions with the same memories.
	_, err = tx.Exec(ctx, `
		INSERT INTO lexical.documents AS d (namespace, memory_id, tsv, terms)
		SELECT namespace, memory_id, tsv::tsvector, terms FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bytea[]) AS t (namespace, memory_id, tsv, terms)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET tsv = excluded.tsv, terms = excluded.terms WHERE d.terms IS DISTINCT FROM excluded.terms`,
		namespaces, ids, vectors, terms)
	return err
}

// lockSettings returns each namespace's settings, and locks them until the transaction ends.
func lockSettings(ctx context.Context, tx pgx.Tx, namespaces []string) (map[string]Settings, error) {
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	batch := &pgx.Batch{}
	if len(namespaces) == 1 {
		postgres.SetNamespace(batch, namespaces[0])
	} else {
		postgres.SetNamespace(batch, postgres.AllNamespaces)
	}
	batch.Queue(`SELECT pg_advisory_xact_lock_shared(`+settingsLock+`) FROM unnest($1::text[]) namespace`, namespaces)
	found := make(map[string]Settings, len(namespaces))
	for _, namespace := range namespaces {
		found[namespace] = DefaultSettings()
	}
	batch.Queue(`SELECT namespace, `+settingsColumns+` FROM lexical.settings WHERE namespace = ANY($1)`, namespaces).Query(func(rows pgx.Rows) error {
		var namespace string
		var s Settings
		var scorer string
		_, err := pgx.ForEachRow(rows, []any{&namespace, &s.Language, &s.K1, &s.B, &s.Prefix, &scorer}, func() error {
			s.Scorer = ScorerByName(scorer)
			found[namespace] = s
			return nil
		})
		return err
	})
	return found, tx.SendBatch(ctx, batch).Close()
}

// settingsColumns are in the order of Settings.
const settingsColumns = `language, k1, b, prefix, coalesce(scorer, '')`

// readSettings returns a namespace's settings.
func readSettings(ctx context.Context, db postgres.Batcher, namespace string) (s Settings, err error) {
	batch := &pgx.Batch{}
	postgres.SetNamespace(batch, namespace)
	s.queue(namespace)(batch)
	err = db.SendBatch(ctx, batch).Close()
	return s, err
}

// queue returns a function that adds the query for a namespace's settings to a batch. The batch's results fill s.
func (s *Settings) queue(namespace string) func(*pgx.Batch) {
	return func(batch *pgx.Batch) {
		batch.Queue(`SELECT `+settingsColumns+` FROM lexical.settings WHERE namespace = $1`, namespace).QueryRow(func(row pgx.Row) error {
			var scorer string
			err := row.Scan(&s.Language, &s.K1, &s.B, &s.Prefix, &scorer)
			if s.Scorer = ScorerByName(scorer); errors.Is(err, pgx.ErrNoRows) {
				*s, err = DefaultSettings(), nil
			}
			return err
		})
	}
}

// Postgres searches images by BM25, or tsvectors by ts_rank.
type Postgres struct {
	*postgres.Standby // to read from; set it before the first search
	pool              *pgxpool.Pool
	images            images
	cfg               Config
}

var _ Leg = (*Postgres)(nil)

// NewPostgres returns the leg for a database.
func NewPostgres(pool *pgxpool.Pool, set *replica.Set, cfg Config) *Postgres {
	return &Postgres{pool: pool, images: newImages(set, cfg.Scorer, true, 0.25), cfg: cfg}
}

// planning are the planner's settings for searches. Queries are planned with their values: the best index depends on the
// frequency of the terms and the size of the namespace, which a generic plan cannot know. A sequential scan would read the
// whole partition, and JIT compilation takes longer than the query.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "jit": "off"}

// inSQL calls fn in a transaction that searches a namespace, with the namespace's settings.
func (p *Postgres) inSQL(ctx context.Context, q leg.Query, fn func(pgx.Tx, Settings) error) error {
	var settings Settings
	return postgres.SearchAfter(ctx, p.Or(p.pool), q.Namespace, planning, settings.queue(q.Namespace), func(tx pgx.Tx) error { return fn(tx, settings) })
}

// Search implements leg.Searcher. A namespace that is not in memory is searched by ts_rank instead of BM25, and the state is
// then FALLBACK.
func (p *Postgres) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	result, why := p.images.search(ctx, q)
	if !inSQL(why) {
		return result, why
	}
	kind := triskelev1.ScoreKind_SCORE_KIND_TS_RANK
	err := p.inSQL(ctx, q, func(tx pgx.Tx, settings Settings) (err error) {
		understood := understand(q.Text, settings)
		if understood.distinct == 0 {
			result = abstained(kind, noWords)
			return nil
		}
		result, err = p.searchByRank(ctx, tx, q, understood)
		result.ScoreKind = kind
		if result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED && cmp.Or(q.Scorer, settings.Scorer, p.cfg.Scorer) != triskelev1.Scorer_SCORER_TS_RANK {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, "ranked by ts_rank: "+why.Error()
		}
		if err != nil || !q.MarkExact {
			return err
		}
		matches, err := p.exactMatches(ctx, tx, q, settings)
		if err == nil {
			err = markExact(q, &result, matches, func(ids []uuid.UUID) ([]leg.Score, error) { return p.ranksOf(ctx, tx, q, understood, ids) })
		}
		if err != nil && len(result.Hits) > 0 && postgres.IsTimeout(err) {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_TRUNCATED, "time ran out before exact matches were marked"
		}
		return err
	})
	if err != nil && !(result.State == triskelev1.LegState_LEG_STATE_TRUNCATED && postgres.IsTimeout(err)) {
		return leg.Result{}, err
	}
	return result, nil
}

// Status implements leg.Searcher. Nothing is ever pending, because the index is written in the record's transaction.
func (p *Postgres) Status(ctx context.Context, namespace string) (leg.Status, error) {
	status := leg.Status{Model: "bm25"}
	err := postgres.In(p.Or(p.pool), namespace).QueryRow(ctx, `SELECT count(*) FROM lexical.documents WHERE namespace = $1`, namespace).Scan(&status.Indexed)
	return status, err
}
