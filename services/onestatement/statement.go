package onestatement

import (
	"fmt"

	"github.com/pgvector/pgvector-go"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/record"
)

// list is how much of a leg's list is wanted and what it counts.
type list struct {
	depth  int
	weight float64
}

// question is what the statement answers.
type question struct {
	namespace          string
	filter             record.Filter
	allTerms, someTerm string // tsqueries; "" finds nothing
	minRank            float64
	vector             *pgvector.HalfVector // nil finds nothing
	model              int64
	lexical, dense     list
	graph              list
	hopDecay           string // the tables of the search by hop decay; "" finds nothing
	k                  float64
	sort               triskelev1.SortBy
	limit              int
}

// order is how memories are returned, in each way of sorting; it is fusion's.
var order = map[triskelev1.SortBy]string{
	triskelev1.SortBy_SORT_BY_RELEVANCE:  "score DESC, importance DESC, created_at DESC, id",
	triskelev1.SortBy_SORT_BY_IMPORTANCE: "score DESC, importance DESC, created_at DESC, id",
	triskelev1.SortBy_SORT_BY_RECENCY:    "created_at DESC, score DESC, importance DESC, id",
}

// prior is what a score is multiplied by, in each way of sorting.
var prior = map[triskelev1.SortBy]string{
	triskelev1.SortBy_SORT_BY_RELEVANCE:  "0.7::float8 + 0.3::float8 * importance",
	triskelev1.SortBy_SORT_BY_IMPORTANCE: "1::float8",
	triskelev1.SortBy_SORT_BY_RECENCY:    "1::float8",
}

// noHopDecay is what a search by hop decay finds that nothing links to.
const noHopDecay = "hop_decay (id, score, importance, created_at, rank) AS (SELECT NULL::uuid, NULL::float8, NULL::float8, NULL::timestamptz, NULL::bigint WHERE false)"

// statement searches by words, by vector and along the graph, merges the lists and fetches the best memories. The lexical list
// is that of ts_rank: memories with all terms first and, if these are fewer than wanted, those with some; the second search is
// not run when its limit is 0. The dense list is exact, and the graph's is that of hop decay, whose arguments args has already.
func (q question) statement(args *postgres.Args) string {
	hopDecay := q.hopDecay
	if hopDecay == "" {
		hopDecay = noHopDecay
	}
	namespace, k := args.Add(q.namespace), args.Add(q.k)
	live := postgres.Live(q.filter, "m", args)
	narrow := ""
	if q.filter.Narrow() {
		narrow = "JOIN memory.memories m ON m.namespace = v.namespace AND m.id = v.memory_id AND " + live
	}
	all, some := args.Add(q.allTerms)+"::tsquery", args.Add(q.someTerm)+"::tsquery"
	lexicalDepth, denseDepth := args.Add(q.lexical.depth)+"::bigint", args.Add(q.dense.depth)
	ranked := func(match, matching, least, limit string) string {
		return fmt.Sprintf(`
			SELECT m.id, r.score, m.importance, m.created_at
			FROM (
				SELECT memory_id, score FROM (
					SELECT memory_id, ts_rank(tsv, %s)::float8 AS score FROM lexical.documents WHERE namespace = %s AND %s OFFSET 0
				) matched WHERE score >= %s ORDER BY score DESC OFFSET 0
			) r
			JOIN memory.memories m ON m.namespace = %[2]s AND m.id = r.memory_id
			WHERE %[5]s ORDER BY r.score DESC, m.importance DESC, m.created_at DESC, m.id LIMIT %[6]s`,
			match, namespace, matching, least, live, limit)
	}
	return fmt.Sprintf(`
		WITH RECURSIVE %[16]s, with_all AS MATERIALIZED (%[1]s
		), with_some AS MATERIALIZED (%[2]s
		), lexical AS MATERIALIZED (
			SELECT *, row_number() OVER (ORDER BY part, score DESC, importance DESC, created_at DESC, id) AS rank
			FROM (SELECT 1 AS part, * FROM with_all UNION ALL SELECT 2, * FROM with_some) both_parts
		), compared AS MATERIALIZED (
			SELECT v.memory_id, round((1 - (v.embedding <=> %[3]s::halfvec)) * %[4]d) / %[4]d AS score
			FROM dense.vectors v %[5]s WHERE v.namespace = %[6]s AND v.model_id = %[7]d AND %[3]s::halfvec IS NOT NULL
		), near AS MATERIALIZED (
			SELECT m.id, s.score, m.importance, m.created_at
			FROM (SELECT memory_id, score FROM compared ORDER BY score DESC OFFSET 0) s
			JOIN memory.memories m ON m.namespace = %[6]s AND m.id = s.memory_id
			WHERE %[8]s ORDER BY s.score DESC FETCH FIRST %[9]s ROWS WITH TIES
		), dense AS MATERIALIZED (
			SELECT *, row_number() OVER (ORDER BY score DESC, importance DESC, created_at DESC, id) AS rank
			FROM near ORDER BY rank LIMIT %[9]s
		), found AS (
			SELECT coalesce(d.id, l.id, g.id) AS id, coalesce(d.importance, l.importance, g.importance) AS importance,
				coalesce(d.created_at, l.created_at, g.created_at) AS created_at,
				d.rank AS dense_rank, d.score AS dense_score, %[10]s::float8 / (%[11]s::float8 + d.rank) AS dense_share,
				l.rank AS lexical_rank, l.score AS lexical_score, %[12]s::float8 / (%[11]s::float8 + l.rank) AS lexical_share,
				g.rank AS graph_rank, g.score AS graph_score, %[17]s::float8 / (%[11]s::float8 + g.rank) AS graph_share
			FROM dense d FULL OUTER JOIN lexical l ON l.id = d.id FULL OUTER JOIN hop_decay g ON g.id = coalesce(d.id, l.id)
		), fused AS (
			SELECT *, coalesce(dense_share * prior, 0) + coalesce(graph_share * prior, 0) + coalesce(lexical_share * prior, 0) AS score
			FROM (SELECT *, %[13]s AS prior FROM found) f
		), best AS MATERIALIZED (
			SELECT *, row_number() OVER (ORDER BY %[14]s) AS place FROM fused ORDER BY place LIMIT %[15]s
		)
		SELECT `+postgres.RecordColumns+`, b.score, b.prior, b.dense_rank, b.dense_score, b.graph_rank, b.graph_score, b.lexical_rank, b.lexical_score,
			(SELECT count(*) FROM dense), (SELECT count(*) FROM hop_decay), (SELECT count(*) FROM lexical)
		FROM best b JOIN memory.memories m ON m.namespace = %[6]s AND m.id = b.id
		ORDER BY b.place`,
		ranked(all, "tsv @@ "+all, "0", lexicalDepth),
		ranked(some, "tsv @@ "+some+" AND ("+all+" = ''::tsquery OR NOT tsv @@ "+all+")", args.Add(q.minRank), "greatest("+lexicalDepth+" - (SELECT count(*) FROM with_all), 0)"),
		args.Add(q.vector), dense.ScoreUnits, narrow, namespace, q.model, live, denseDepth,
		args.Add(q.dense.weight), k, args.Add(q.lexical.weight), prior[q.sort], order[q.sort], args.Add(q.limit),
		hopDecay, args.Add(q.graph.weight),
	)
}
