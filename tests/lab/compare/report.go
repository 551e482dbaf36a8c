package compare

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/tests/lab/stats"
)

const (
	resamples = 10_000
	seed      = 1
)

// Interval is a difference of two means over the same queries with its 95 % confidence interval.
type Interval struct{ Mean, Low, High float64 }

// Paired resamples the queries' differences with replacement (Efron and Tibshirani, "An Introduction to the Bootstrap",
// 1993, chapter 13: the percentile interval). The same differences always give the same interval.
func Paired(differences []float64) Interval {
	n := len(differences)
	if n == 0 {
		return Interval{}
	}
	var mean float64
	for _, d := range differences {
		mean += d / float64(n)
	}
	means := stats.Resample(differences, resamples, rand.New(rand.NewPCG(seed, uint64(n))))
	return Interval{mean, means[resamples/40], means[resamples-1-resamples/40]}
}

// String shows three decimals, and marks an interval that excludes 0.
func (i Interval) String() string {
	text := fmt.Sprintf("%+.3f [%+.3f, %+.3f]", i.Mean, i.Low, i.High)
	if i.Low > 0 || i.High < 0 {
		return "**" + text + "**"
	}
	return text
}

// which selects queries.
type which func(Outcome) bool

func all(Outcome) bool        { return true }
func reported(o Outcome) bool { return !o.Tuning }
func tuned(o Outcome) bool    { return o.Tuning }

func stratum(name string) which { return func(o Outcome) bool { return o.Stratum == name } }

// recall is the mean recall@10.
func (r Result) recall(of which) float64 {
	var sum, n float64
	for _, q := range r.Queries {
		if of(q) {
			sum, n = sum+q.Metrics.Recall10, n+1
		}
	}
	return sum / max(n, 1)
}

// over compares recall@10 with another result on the same set.
func (r Result) over(other Result, of which) Interval {
	var differences []float64
	for i, q := range r.Queries {
		if of(q) {
			differences = append(differences, q.Metrics.Recall10-other.Queries[i].Metrics.Recall10)
		}
	}
	return Paired(differences)
}

// results finds results.
type results []Result

func (rs results) find(set string, scope Scope, embedder string, how Fusion) (Result, bool) {
	i := slices.IndexFunc(rs, func(r Result) bool {
		return r.Set == set && r.Scope == scope && r.Embedder == embedder && r.Fusion == how
	})
	if i < 0 {
		return Result{}, false
	}
	return rs[i], true
}

// best is a method with the alpha that has the highest mean of recall@10 over the queries of all tuning halves. A mean over
// sets would be decided by the small ones, whose halves have too few queries to tell two alphas apart.
func (rs results) best(embedder string, method Method, o Options) Fusion {
	best, most := Fusion{}, -1.0
	for _, alpha := range o.Alphas {
		var sum float64
		for _, set := range o.Sets {
			if r, ok := rs.find(set, Own, embedder, Fusion{method, alpha}); ok {
				for _, q := range r.Queries {
					if tuned(q) {
						sum += q.Metrics.Recall10
					}
				}
			}
		}
		if sum > most {
			best, most = Fusion{method, alpha}, sum
		}
	}
	return best
}

// Markdown reports results of Run. ours is the embedder that the others are compared with, and baseline the one it is
// to beat.
func Markdown(found []Result, o Options, ours, baseline string) string {
	rs := results(found)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("## The dense leg alone\n")
	line("Recall@10 over all queries, and over the reporting half; then the difference to %s over all queries.\n", baseline)
	line("| set | searched | embedder | all | reporting half | over %s |", baseline)
	line("|---|---|---|---|---|---|")
	for _, set := range o.Sets {
		for _, scope := range []Scope{Own, Whole} {
			base, ok := rs.find(set, scope, baseline, Fusion{})
			if !ok {
				continue
			}
			for _, e := range o.Embedders {
				r, _ := rs.find(set, scope, e.Name, Fusion{})
				over := r.over(base, all).String()
				if e.Name == baseline {
					over = ""
				}
				line("| %s | %s | %s | %.3f | %.3f | %s |", set, scope, e.Name, r.recall(all), r.recall(reported), over)
			}
		}
	}

	line("\n## Lexical and dense, fused\n")
	line("Convex combination as in the gateway, each list 50 deep. For each embedder, alpha is the one of %v with the best mean", o.Alphas)
	line("recall@10 over the queries of all tuning halves. Differences are to the lexical leg alone.\n")
	line("| set | embedder | alpha | all | over lexical | reporting half | over lexical |")
	line("|---|---|---|---|---|---|---|")
	for _, set := range o.Sets {
		lexical, _ := rs.find(set, Own, "", Fusion{})
		line("| %s | lexical alone | | %.3f | | %.3f | |", set, lexical.recall(all), lexical.recall(reported))
		for _, e := range o.Embedders {
			how := rs.best(e.Name, Convex, o)
			r, _ := rs.find(set, Own, e.Name, how)
			line("| %s | %s | %.2f | %.3f | %s | %.3f | %s |", set, e.Name, how.Alpha,
				r.recall(all), r.over(lexical, all), r.recall(reported), r.over(lexical, reported))
		}
	}

	line("\n### %s over %s\n", ours, baseline)
	line("Differences in recall@10: of the dense leg alone, fused by the convex combination with the alpha of each, and fused as the gateway does")
	line("by default, by RRF with k = %d.\n", fusion.DefaultK)
	line("| set | alone, all | alone, reporting half | convex, all | convex, reporting half | by default, all | by default, reporting half |")
	line("|---|---|---|---|---|---|---|")
	for _, set := range o.Sets {
		row := fmt.Sprintf("| %s |", set)
		for _, how := range [][2]Fusion{{}, {rs.best(ours, Convex, o), rs.best(baseline, Convex, o)}, {{Method: Default}, {Method: Default}}} {
			r, _ := rs.find(set, Own, ours, how[0])
			base, _ := rs.find(set, Own, baseline, how[1])
			row += fmt.Sprintf(" %s | %s |", r.over(base, all), r.over(base, reported))
		}
		line("%s", row)
	}

	line("\n### %s by alpha\n", ours)
	line("Recall@10 over all queries, for the curve around the choice.\n")
	line("| set | lexical alone |%s", alphaCells(o.Alphas))
	line("|---|---|%s", strings.Repeat("---|", len(o.Alphas)))
	for _, set := range o.Sets {
		lexical, _ := rs.find(set, Own, "", Fusion{})
		row := fmt.Sprintf("| %s | %.3f |", set, lexical.recall(all))
		for _, alpha := range o.Alphas {
			r, _ := rs.find(set, Own, ours, Fusion{Convex, alpha})
			row += fmt.Sprintf(" %.3f |", r.recall(all))
		}
		line("%s", row)
	}

	line("\n### Other ways to fuse\n")
	line("Recall@10 over all queries minus that of the lexical leg alone. RRF has equal weights; k = %d is the gateway's default.", fusion.DefaultK)
	line("Z-scores are distances from the mean of the list in standard deviations, where a document that a list lacks counts like")
	line("its last one; alpha is %.1f, or chosen as above.\n", fixedAlpha)
	line("| set | embedder | RRF, k %d | RRF, k %d | z-score, alpha %.1f | z-score | alpha |", fusion.DefaultK, rankConstant, fixedAlpha)
	line("|---|---|---|---|---|---|---|")
	for _, set := range o.Sets {
		lexical, _ := rs.find(set, Own, "", Fusion{})
		for _, e := range o.Embedders {
			chosen := rs.best(e.Name, ZScore, o)
			row := fmt.Sprintf("| %s | %s |", set, e.Name)
			for _, how := range []Fusion{{Method: Default}, {Method: RRF}, {ZScore, fixedAlpha}, chosen} {
				r, _ := rs.find(set, Own, e.Name, how)
				row += fmt.Sprintf(" %s |", r.over(lexical, all))
			}
			line("%s %.2f |", row, chosen.Alpha)
		}
	}

	line("\n## By category\n")
	line("Recall@10 over all queries; the fused list has the alpha above.\n")
	line("| set | category | queries | lexical | %s | %s | %s over %s | fused | fused over lexical |", baseline, ours, ours, baseline)
	line("|---|---|---|---|---|---|---|---|---|")
	how := rs.best(ours, Convex, o)
	for _, set := range o.Sets {
		lexical, _ := rs.find(set, Own, "", Fusion{})
		base, _ := rs.find(set, Own, baseline, Fusion{})
		dense, _ := rs.find(set, Own, ours, Fusion{})
		fused, _ := rs.find(set, Own, ours, how)
		counts := map[string]int{}
		for _, q := range lexical.Queries {
			counts[q.Stratum]++
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			of := stratum(name)
			line("| %s | %s | %d | %.3f | %.3f | %.3f | %s | %.3f | %s |", set, strings.ReplaceAll(name, "|", `\|`), counts[name],
				lexical.recall(of), base.recall(of), dense.recall(of), dense.over(base, of), fused.recall(of), fused.over(lexical, of))
		}
	}
	return b.String()
}

func alphaCells(alphas []float64) string {
	var b strings.Builder
	for _, alpha := range alphas {
		fmt.Fprintf(&b, " %.2f |", alpha)
	}
	return b.String()
}
