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
)

// settingsLock is the key of an advisory lock. Transactions that write a namespace's index share it. A transaction that
// changes the namespace's settings holds it exclusively, so that no document stays indexed by former settings.
const settingsLock = `hashtextextended('lexical settings of ' || namespace, 0)`

// PostgresIndex writes the index in the record's own transaction.
type PostgresIndex struct{}

// Put adds or replaces the records' entries. It writes documents; a trigger writes the postings.
func (PostgresIndex) Put(ctx context.Context, tx pgx.Tx, records []record.Record) error {
	n := len(records)
	namespaces, ids, vectors := make([]string, n), make([]uuid.UUID, n), make([]string, n)
	contents, titles := make([]*int64, n), make([]*int64, n)
	for i, r := range records {
		namespaces[i], ids[i], contents[i], titles[i] = r.Namespace, r.ID, hashOf(r.Content), hashOf(r.Title)
	}
	settings, err := lockSettings(ctx, tx, namespaces)
	if err != nil {
		return err
	}
	for i, r := range records {
		vectors[i] = settings[r.Namespace].language().tsvector(r)
	}
	// The order prevents deadlocks of transactions with the same memories. A record whose words have not changed is not
	// written.
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO lexical.documents AS d (namespace, memory_id, tsv)
		SELECT namespace, memory_id, tsv::tsvector FROM unnest($1::text[], $2::uuid[], $3::text[]) AS t (namespace, memory_id, tsv)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET tsv = excluded.tsv WHERE d.tsv IS DISTINCT FROM excluded.tsv`,
		namespaces, ids, vectors)
	batch.Queue(`
		INSERT INTO lexical.hashes AS h (namespace, memory_id, content, title)
		SELECT namespace, memory_id, content, title FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[]) AS t (namespace, memory_id, content, title)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET content = excluded.content, title = excluded.title
		WHERE (h.content, h.title) IS DISTINCT FROM (excluded.content, excluded.title)`, namespaces, ids, contents, titles)
	return tx.SendBatch(ctx, batch).Close()
}

// Forget removes the words of deleted documents from the blocks, where they would stay until the next fold.
func (PostgresIndex) Forget(ctx context.Context, tx pgx.Tx, namespace string) error {
	_, err := postgres.In(tx, namespace).Exec(ctx, `SELECT lexical.fold($1)`, namespace)
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

// Postgres searches by BM25 over blocks of postings, or by ts_rank over weighted tsvectors.
type Postgres struct {
	*postgres.Standby // to read from; set it before the first search
	pool              *pgxpool.Pool
	cfg               Config
}

var _ Leg = (*Postgres)(nil)

// NewPostgres returns the leg for a database.
func NewPostgres(pool *pgxpool.Pool, cfg Config) *Postgres {
	cfg.Scorer = cmp.Or(cfg.Scorer, triskelev1.Scorer_SCORER_BM25)
	cfg.MaxPostings = cmp.Or(cfg.MaxPostings, defaultMaxPostings)
	return &Postgres{pool: pool, cfg: cfg}
}

// planning are the planner's settings for searches. Queries are planned with their values: the best index depends on the
// frequency of the terms and the size of the namespace, which a generic plan cannot know. A sequential scan would read the
// whole partition, and JIT compilation takes longer than the query.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "jit": "off"}

// scorer returns the scorer of the request, else of the namespace's settings, else of the configuration.
func (p *Postgres) scorer(q leg.Query, settings Settings) triskelev1.Scorer {
	return cmp.Or(q.Scorer, settings.Scorer, p.cfg.Scorer)
}

// Search implements leg.Searcher.
func (p *Postgres) Search(ctx context.Context, q leg.Query) (leg.Result, error) {
	var result leg.Result
	var settings Settings
	err := postgres.SearchAfter(ctx, p.Or(p.pool), q.Namespace, planning, settings.queue(q.Namespace), func(tx pgx.Tx) error {
		search, kind := p.searchByBM25, triskelev1.ScoreKind_SCORE_KIND_BM25
		if p.scorer(q, settings) == triskelev1.Scorer_SCORER_TS_RANK {
			search, kind = p.searchByRank, triskelev1.ScoreKind_SCORE_KIND_TS_RANK
		}
		understood := understand(q.Text, settings)
		if understood.distinct == 0 {
			result = abstained(kind, noWords)
			return nil
		}
		var err error
		result, err = search(ctx, tx, q, understood, settings)
		result.ScoreKind = kind
		if err != nil || !q.MarkExact {
			return err
		}
		matches, err := p.exactMatches(ctx, tx, q, quoted(q.Text))
		if err == nil {
			err = markExact(q, &result, matches, func(ids []uuid.UUID) ([]leg.Score, error) {
				scores, _, err := p.scores(ctx, tx, q, understood, settings, ids)
				return scores, err
			})
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
