package lexical

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/replica"
)

// images searches the images of namespaces by BM25, for either engine.
type images struct {
	set     *replica.Set
	scorer  triskelev1.Scorer // of a namespace without its own
	hasRank bool              // the engine has ts_rank
	// loadShare is the share of a search's time that loading a namespace may take.
	loadShare float64
}

// errRank is the error for a search that is to rank by ts_rank.
var errRank = errors.New("the scorer is ts_rank")

// newImages registers the leg's part.
func newImages(set *replica.Set, scorer triskelev1.Scorer, hasRank bool, loadShare float64) images {
	set.Register(PartName, replica.Records, func(rows *replica.Rows) replica.Part { return newInverted(rows) })
	return images{set, scorer, hasRank, loadShare}
}

// inSQL reports whether an error says that the image cannot answer, but SQL can.
func inSQL(err error) bool {
	return errors.Is(err, errRank) || errors.Is(err, replica.ErrCold) || errors.Is(err, replica.ErrTooLarge)
}

// view calls fn with the image of the query's namespace, and the prepared search if the query has any words.
func (i images) view(ctx context.Context, q leg.Query, fn func(v *replica.View, s *bm25)) error {
	if i.hasRank && q.Scorer == triskelev1.Scorer_SCORER_TS_RANK {
		return errRank
	}
	v, err := i.set.View(ctx, q.Namespace, replica.Need{Part: PartName, Filter: q.Filter, AtLeast: q.AtLeast, Question: q.Text}, i.loadShare)
	if err != nil {
		return err
	}
	defer v.Close()
	index := v.Part.(*inverted)
	if i.hasRank && cmp.Or(q.Scorer, index.settings.Scorer, i.scorer) == triskelev1.Scorer_SCORER_TS_RANK {
		return errRank
	}
	var s *bm25
	if understood := understand(q.Text, index.settings); understood.distinct > 0 {
		s = newBM25(ctx, index, v.Selection, understood)
	}
	fn(v, s)
	return nil
}

// search searches by BM25. The error may be one that inSQL knows.
func (i images) search(ctx context.Context, q leg.Query) (result leg.Result, err error) {
	failed := i.view(ctx, q, func(v *replica.View, s *bm25) {
		defer result.From(v)
		if s == nil {
			result = abstained(triskelev1.ScoreKind_SCORE_KIND_BM25, noWords)
			return
		}
		if result, err = s.search(ctx, q); err != nil {
			return
		}
		if !i.hasRank && result.State == triskelev1.LegState_LEG_STATE_UNSPECIFIED &&
			cmp.Or(q.Scorer, s.settings.Scorer) == triskelev1.Scorer_SCORER_TS_RANK {
			result.State, result.Reason = triskelev1.LegState_LEG_STATE_FALLBACK, cmp.Or(result.Reason, "ranked by bm25: this store has no ts_rank")
		}
	})
	return result, cmp.Or(failed, err)
}

// scores returns the scores of memories that have a document.
func (i images) scores(ctx context.Context, q leg.Query, ids []uuid.UUID) (scores []leg.Score, err error) {
	err = i.view(ctx, q, func(_ *replica.View, s *bm25) {
		if s != nil {
			scores = s.scoresOf(q, ids)
		}
	})
	return scores, err
}
