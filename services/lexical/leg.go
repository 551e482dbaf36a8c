package lexical

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Leg searches images by BM25, or tsvectors of PostgreSQL by ts_rank.
type Leg struct {
	*postgres.Standby
	store sqldb.Store
	set   *replica.Set
	part  replica.Place
	cfg   Config
	// loadShare is the share of a search's time that loading a namespace may take.
	loadShare float64
}

var (
	_ leg.Searcher = (*Leg)(nil)
	_ leg.Scorer   = (*Leg)(nil)
)

// New returns the leg for a database. The configuration is for PostgreSQL.
func New(store sqldb.Store, set *replica.Set, cfg Config) *Leg {
	loadShare := 0.9
	if store.File == nil {
		loadShare = 0.25 // the SQL search gets the rest
	}
	part := set.Register("lexical", replica.Records, func(rows *replica.Rows) replica.Part { return newInverted(rows) })
	return &Leg{Standby: store.Standby, store: store, set: set, part: part, cfg: cfg, loadShare: loadShare}
}

// errRank is the error for a search that is to rank by ts_rank.
var errRank = errors.New("the scorer is ts_rank")

// inSQL reports whether an error says that the image cannot answer, but SQL can.
func inSQL(err error) bool { return errors.Is(err, errRank) || leg.NotInMemory(err) }

// view calls fn with the image of the query's namespace, and the prepared search if the query has any words.
func (l *Leg) view(ctx context.Context, q leg.Query, fn func(v *replica.View, s *bm25)) error {
	hasRank := l.store.File == nil
	if hasRank && q.Scorer == triskelev1.Scorer_SCORER_TS_RANK {
		return errRank
	}
	v, err := l.set.View(ctx, q.Namespace, replica.Need{Part: l.part, Filter: q.Filter, AtLeast: q.AtLeast, Question: q.Text}, l.loadShare)
	if err != nil {
		return err
	}
	defer v.Close()
	index := v.Part.(*inverted)
	if hasRank && cmp.Or(q.Scorer, index.settings.Scorer, ScorerByName(l.cfg.Scorer)) == triskelev1.Scorer_SCORER_TS_RANK {
		return errRank
	}
	var s *bm25
	if understood := understand(q.Text, index.settings); understood.distinct > 0 {
		s = newBM25(ctx, index, v.Selection, understood)
	}
	fn(v, s)
	return nil
}

// Search implements leg.Searcher. On PostgreSQL, a namespace that is not in memory is searched by ts_rank instead of BM25, and the
// state is then FALLBACK. On SQLite, it has no hits yet, and the state is TRUNCATED.
func (l *Leg) Search(ctx context.Context, q leg.Query) (result leg.Result, err error) {
	why := l.view(ctx, q, func(v *replica.View, s *bm25) {
		defer result.From(v)
		if s == nil {
			result = leg.Abstained(triskelev1.ScoreKind_SCORE_KIND_BM25, noWords)
			return
		}
		if result, err = s.search(ctx, q); err != nil {
			return
		}
		if l.store.File != nil && result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED &&
			cmp.Or(q.Scorer, s.settings.Scorer) == triskelev1.Scorer_SCORER_TS_RANK {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, cmp.Or(result.Reason, "ranked by bm25: this store has no ts_rank")
		}
	})
	switch {
	case !inSQL(why):
		return result, cmp.Or(why, err)
	case l.store.File != nil:
		return leg.Result{State: triskelev1.LegState_LEG_STATE_TRUNCATED, Reason: why.Error(), ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25}, nil
	}
	return l.searchInSQL(ctx, q, why)
}

// Scores implements leg.Scorer. A memory without a term of the query scores 0. On SQLite, a namespace must be in memory.
func (l *Leg) Scores(ctx context.Context, q leg.Query, ids []uuid.UUID) (scores []leg.Hit, kind triskelev1.ScoreKind, err error) {
	err = l.view(ctx, q, func(_ *replica.View, s *bm25) {
		if s != nil {
			scores = s.scoresOf(q, ids)
		}
	})
	switch {
	case !inSQL(err):
		return scores, triskelev1.ScoreKind_SCORE_KIND_BM25, err
	case l.store.File != nil:
		return nil, triskelev1.ScoreKind_SCORE_KIND_BM25, nil
	}
	err = l.inSQL(ctx, q, func(tx pgx.Tx, settings Settings) (err error) {
		scores, err = l.ranksOf(ctx, tx, q, understand(q.Text, settings), ids)
		return err
	})
	return scores, triskelev1.ScoreKind_SCORE_KIND_TS_RANK, err
}

// Status implements leg.Searcher. Nothing is ever pending, so SQLite may count memories, which have a small index.
func (l *Leg) Status(ctx context.Context, namespace string) (leg.Status, error) {
	db, status := l.store.Searched(), leg.Status{Model: "bm25"}
	_, err := db.In(namespace).Get(ctx, `SELECT count(*) FROM `+db.Dialect("lexical.documents", "memories")+` WHERE namespace = $1`, []any{namespace}, &status.Indexed)
	return status, err
}
