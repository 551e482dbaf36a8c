// Package compare measures embedders side by side on retrieval collections, alone and fused with the lexical leg, without
// a database: cosines are computed exactly, lexical rankings come from the run files of an evaluation, and lists are fused
// by the gateway's own code.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/measure"
	"github.com/triskele/triskele/tests/lab/stats"
)

const (
	// depth is how long the lists are that are fused, as in the gateway.
	depth = 50
	// rankConstant is that of the paper, which everybody copies.
	rankConstant = 60
)

// Named is an embedder under the name that the report gives it.
type Named struct {
	Name     string
	Embedder embed.Embedder
	Weighed  bool // the queries are weighed by their namespace
}

// Options say what to compare.
type Options struct {
	Data      string    // folder with a sub-folder per set, in the BEIR layout
	Sets      []string  // sub-folders
	Lexical   string    // folder of results of an evaluation with the lexical leg alone
	Alphas    []float64 // weights of the dense leg to try, where scores are combined
	Embedders []Named
	Progress  io.Writer
}

// Scope says which documents a query may find.
type Scope string

// The scopes.
const (
	Own   Scope = "own namespace"
	Whole Scope = "whole corpus"
)

// Fusion is a way to merge the lexical leg's list with the dense one. The zero value stands for one of them alone.
type Fusion struct {
	Method Method
	Alpha  float64 // weight of the dense leg; 0 where ranks are fused
}

// Method is how scores or ranks are made comparable.
type Method string

// The methods. The first three are the gateway's.
const (
	Convex  Method = "convex"
	RRF     Method = "RRF"     // with the paper's rank constant
	Default Method = "default" // RRF with the gateway's own rank constant
	ZScore  Method = "z-score" // distances from the list's mean in standard deviations
)

// fusions are all that are tried.
func (o Options) fusions() []Fusion {
	all := []Fusion{{Method: Default}, {Method: RRF}, {ZScore, fixedAlpha}}
	for _, alpha := range o.Alphas {
		all = append(all, Fusion{Convex, alpha})
		if alpha != fixedAlpha {
			all = append(all, Fusion{ZScore, alpha})
		}
	}
	return all
}

// fixedAlpha is the weight with which z-scores are reported beside the chosen one.
const fixedAlpha = 0.5

// Result is what one ranking reached on one set.
type Result struct {
	Set      string
	Scope    Scope
	Embedder string // "" for the lexical leg alone
	Fusion   Fusion // with the lexical leg
	Queries  []Outcome
}

// Outcome is one query's measures.
type Outcome struct {
	ID      string
	Stratum string
	Tuning  bool // the query belongs to the half that settings may be chosen by
	Metrics eval.Metrics
}

// Run measures all embedders on all sets.
func Run(ctx context.Context, options Options) ([]Result, error) {
	var results []Result
	for _, name := range options.Sets {
		set, err := eval.Load(filepath.Join(options.Data, name), 0)
		if err != nil {
			return nil, err
		}
		lexical, err := measure.ReadRun(filepath.Join(options.Lexical, "runs", name, "D-lexical.trec"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no run of the lexical leg on %s: run triskele eval --configs D-lexical first", options.Lexical, name)
		}
		if err != nil {
			return nil, err
		}
		c := &collection{set: set}
		results = append(results, c.result(Own, "", Fusion{}, func(q eval.Query) []string { return lexical[q.ID].IDs }))
		for _, named := range options.Embedders {
			_, _ = fmt.Fprintf(options.Progress, "%s: %s\n", name, named.Name)
			if err := c.embed(ctx, named.Embedder); err != nil {
				return nil, fmt.Errorf("%s: %w", named.Name, err)
			}
			if named.Weighed {
				if c.queries, err = c.weigh(named.Embedder.Model().Queried()); err != nil {
					return nil, fmt.Errorf("%s: %w", named.Name, err)
				}
			}
			own := c.search(func(q eval.Query, namespace string) bool { return q.Namespace == namespace })
			results = append(results, c.result(Own, named.Name, Fusion{}, func(q eval.Query) []string { return ids(own[q.ID], hitID) }))
			for _, how := range options.fusions() {
				results = append(results, c.result(Own, named.Name, how, func(q eval.Query) []string { return fuse(lexical[q.ID], own[q.ID], how) }))
			}
			if len(set.Namespaces) > 1 && !named.Weighed {
				whole := c.search(func(eval.Query, string) bool { return true })
				results = append(results, c.result(Whole, named.Name, Fusion{}, func(q eval.Query) []string { return ids(whole[q.ID], hitID) }))
			}
		}
	}
	return results, nil
}

// collection is a set with its vectors by one embedder.
type collection struct {
	set       *eval.Set
	documents [][]float32
	queries   [][]float32
}

func (c *collection) embed(ctx context.Context, embedder embed.Embedder) (err error) {
	model := embedder.Model()
	texts := make([]string, len(c.set.Memories))
	for i, m := range c.set.Memories {
		texts[i] = model.DocumentPrefix + embed.Text(m.GetTitle(), m.GetContent())
	}
	c.documents = nil
	for batch := range slices.Chunk(texts, 256) {
		vectors, err := embedder.EmbedDocuments(ctx, batch)
		if err != nil {
			return err
		}
		c.documents = append(c.documents, vectors...)
	}
	c.queries = make([][]float32, len(c.set.Queries))
	for i, q := range c.set.Queries {
		if c.queries[i], err = embedder.EmbedQuery(ctx, model.QueryPrefix+q.Text); err != nil {
			return err
		}
	}
	return nil
}

// search returns the documents nearest to each query.
func (c *collection) search(visible func(q eval.Query, namespace string) bool) map[string][]fusion.Hit {
	found := make([][]fusion.Hit, len(c.queries))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(found); i = int(next.Add(1)) - 1 {
				found[i] = c.nearest(i, visible)
			}
		})
	}
	wg.Wait()
	byQuery := map[string][]fusion.Hit{}
	for i, q := range c.set.Queries {
		byQuery[q.ID] = found[i]
	}
	return byQuery
}

func (c *collection) nearest(query int, visible func(q eval.Query, namespace string) bool) []fusion.Hit {
	q := c.queries[query]
	order := func(a, b fusion.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) }
	var hits []fusion.Hit
	for i, m := range c.set.Memories {
		if !visible(c.set.Queries[query], m.GetNamespace()) {
			continue
		}
		var cosine float32
		for k, x := range c.documents[i] {
			cosine += x * q[k]
		}
		if len(hits) == depth && float64(cosine) < hits[depth-1].Score {
			continue
		}
		hit := fusion.Hit{ID: c.set.Documents[m.GetId()], Score: float64(cosine)}
		at, _ := slices.BinarySearchFunc(hits, hit, order)
		hits = slices.Insert(hits, at, hit)
		hits = hits[:min(depth, len(hits))]
	}
	return hits
}

func ids[T any](hits []T, id func(T) string) []string {
	out := make([]string, len(hits))
	for i, hit := range hits {
		out[i] = id(hit)
	}
	return out
}

func hitID(hit fusion.Hit) string { return hit.ID }

// fuse merges a lexical and a dense list, by the gateway's own code where it has the method.
func fuse(lexical eval.Ranking, dense []fusion.Hit, how Fusion) []string {
	list := make([]fusion.Hit, 0, depth)
	for _, id := range lexical.IDs[:min(depth, len(lexical.IDs))] {
		list = append(list, fusion.Hit{ID: id, Score: lexical.Scores[id]})
	}
	if how.Method == ZScore {
		return standardized(list, dense, how.Alpha)
	}
	options := fusion.Options{Method: triskelev1.FusionMethod_FUSION_METHOD_RRF, K: rankConstant, Limit: depth}
	switch how.Method {
	case Convex:
		options.Method, options.Alpha = triskelev1.FusionMethod_FUSION_METHOD_CONVEX, &how.Alpha
	case Default:
		options.K = fusion.DefaultK
	}
	return ids(fusion.Fuse([]fusion.List{
		{Leg: "lexical", Weight: 1, Kind: triskelev1.ScoreKind_SCORE_KIND_BM25, Hits: list},
		{Leg: "dense", Weight: 1, Kind: triskelev1.ScoreKind_SCORE_KIND_COSINE, Hits: dense},
	}, options).Hits, func(hit fusion.Fused) string { return hit.ID })
}

// standardized orders documents by the weighted sum of their scores' distances from their lists' means, in standard
// deviations of the list. A document that a list lacks counts there like the list's last one.
func standardized(lexical, dense []fusion.Hit, alpha float64) []string {
	sums := map[string]float64{}
	for _, list := range []struct {
		hits   []fusion.Hit
		weight float64
	}{{lexical, 1 - alpha}, {dense, alpha}} {
		var mean, squares float64
		for _, hit := range list.hits {
			mean += hit.Score / float64(len(list.hits))
		}
		for _, hit := range list.hits {
			squares += (hit.Score - mean) * (hit.Score - mean) / float64(len(list.hits))
		}
		for _, hit := range list.hits {
			// The last one's distance is subtracted from all, which leaves 0 for those that the list lacks.
			above := 0.0
			if squares > 0 {
				above = (hit.Score - list.hits[len(list.hits)-1].Score) / math.Sqrt(squares)
			}
			sums[hit.ID] += list.weight * above
		}
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	return order[:min(depth, len(order))]
}

func (c *collection) result(scope Scope, embedder string, how Fusion, ranking func(eval.Query) []string) Result {
	r := Result{Set: c.set.Name, Scope: scope, Embedder: embedder, Fusion: how}
	for _, q := range c.set.Queries {
		r.Queries = append(r.Queries, Outcome{
			ID: q.ID, Stratum: q.Stratum, Tuning: stats.Tuning(c.set.Name, q.ID), Metrics: eval.Measure(ranking(q), q.Grades),
		})
	}
	return r
}
