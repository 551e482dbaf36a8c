// Package onestatement answers a recall with a single SQL statement, for one small PostgreSQL: the lists of the three legs as
// parts of it, joined and ranked by reciprocal rank fusion in the database, contents included. It is also the yardstick for
// the fan-out, which gives the same answers when it ranks by ts_rank, compares vectors one by one and walks by hop decay.
// What a query means is looked up before: its vector, its terms, the concepts it names.
package onestatement

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/postgres"
	"github.com/triskele/triskele/services/record"
)

// The legs that the statement has, as the gateway names them.
const (
	lexicalLeg = "lexical"
	denseLeg   = "dense"
	graphLeg   = "graph"
)

// Server serves RecallService to a gateway, which has filled in what the request leaves open: one namespace, reciprocal rank
// fusion with its k, depth and weight of each leg. It leaves out what a gateway does by itself.
type Server struct {
	triskelev1.UnimplementedRecallServiceServer
	pool    *pgxpool.Pool
	dense   *dense.Postgres
	graph   *graph.Postgres
	minRank float64
}

// NewServer returns a server on a database; dense makes the queries' vectors, graph its own part of the statement.
func NewServer(pool *pgxpool.Pool, dense *dense.Postgres, graph *graph.Postgres, config lexical.Config) *Server {
	return &Server{pool: pool, dense: dense, graph: graph, minRank: config.OrBroadenMinRank}
}

// planning holds for the statement: as for the leg that searches by words. Vectors are compared one by one.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_seqscan": "off", "jit": "off"}

// Recall implements triskelev1.RecallServiceServer.
func (s *Server) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	q, err := questionOf(req)
	if err != nil {
		return nil, err
	}
	q.minRank = s.minRank
	reports := map[string]*triskelev1.LegReport{
		denseLeg:   {Leg: denseLeg, State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_COSINE},
		graphLeg:   {Leg: graphLeg, State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY},
		lexicalLeg: {Leg: lexicalLeg, State: triskelev1.LegState_LEG_STATE_OK, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_TS_RANK},
	}
	resp := &triskelev1.RecallResponse{Legs: []*triskelev1.LegReport{reports[denseLeg], reports[graphLeg], reports[lexicalLeg]}}
	abstain := func(leg, reason string) {
		reports[leg].State, reports[leg].Reason = triskelev1.LegState_LEG_STATE_ABSTAINED, reason
	}
	if asked(req, denseLeg) {
		compared, err := s.dense.Compared(ctx, leg.Query{Text: req.GetQuery(), Vector: req.GetVector()})
		var field *record.FieldError
		switch {
		case errors.As(err, &field):
			return nil, rpc.Invalid(field.Field, field.MustBe)
		case err != nil:
			return nil, err
		}
		q.model, q.vector = compared.Model, compared.Vector
		if q.vector == nil {
			abstain(denseLeg, compared.Reason)
		} else if compared.Reason != "" {
			reports[denseLeg].State, reports[denseLeg].Reason = triskelev1.LegState_LEG_STATE_FALLBACK, compared.Reason
		}
	}
	err = postgres.Search(ctx, s.pool, q.namespace, planning, func(tx pgx.Tx) error {
		if asked(req, lexicalLeg) {
			var err error
			if q.allTerms, q.someTerm, err = lexical.RankQueries(ctx, tx, q.namespace, req.GetQuery()); err != nil {
				return err
			}
			if q.allTerms == "" && q.someTerm == "" {
				abstain(lexicalLeg, "the query has no words")
			}
		}
		var args postgres.Args
		if asked(req, graphLeg) {
			var reason string
			query := leg.Query{Namespace: q.namespace, Text: req.GetQuery(), Filter: q.filter, Depth: q.graph.depth}
			if q.hopDecay, reason, err = s.graph.HopDecay(ctx, tx, query, &args); err != nil {
				return err
			}
			if reason != "" {
				abstain(graphLeg, reason)
			}
		}
		statement := q.statement(&args)
		rows, err := tx.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		resp.Hits, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*triskelev1.Hit, error) {
			return q.scan(row, reports)
		})
		return err
	})
	if err == nil && req.GetExplain() {
		err = s.explain(ctx, leg.Query{Namespace: q.namespace, Text: req.GetQuery(), Filter: q.filter, Depth: q.graph.depth}, resp.GetHits())
	}
	return resp, err
}

// explain says of each hit of the graph by which way it was found.
func (s *Server) explain(ctx context.Context, q leg.Query, hits []*triskelev1.Hit) error {
	var found []*triskelev1.Contribution
	var ids []uuid.UUID
	for _, h := range hits {
		for _, c := range h.GetContributions() {
			if c.GetLeg() == graphLeg {
				found, ids = append(found, c), append(ids, uuid.MustParse(h.GetId()))
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	paths, err := s.graph.Explain(ctx, q, ids)
	for i, path := range paths {
		found[i].Path = leg.PathToProto(path)
	}
	return err
}

// asked says whether a leg is to take part.
func asked(req *triskelev1.RecallRequest, leg string) bool {
	o := req.GetLegs()[leg]
	return o != nil && (o.Enabled == nil || o.GetEnabled())
}

// questionOf reads a request as a gateway makes it.
func questionOf(req *triskelev1.RecallRequest) (question, error) {
	filter, err := record.FilterFromProto(req.GetFilter())
	var field *record.FieldError
	switch {
	case errors.As(err, &field):
		return question{}, rpc.Invalid(field.Field, field.MustBe)
	case err != nil:
		return question{}, err
	case len(req.GetNamespaces()) != 1:
		return question{}, rpc.Invalid("namespaces", "must be one")
	case req.GetFusion().GetMethod() != triskelev1.FusionMethod_FUSION_METHOD_RRF:
		return question{}, rpc.Invalid("fusion.method", "must be FUSION_METHOD_RRF")
	}
	listOf := func(leg string) list {
		o := req.GetLegs()[leg]
		return list{depth: int(o.GetDepth()), weight: o.GetWeight()}
	}
	q := question{
		namespace: req.GetNamespaces()[0], filter: filter, lexical: listOf(lexicalLeg), dense: listOf(denseLeg), graph: listOf(graphLeg),
		k: req.GetFusion().GetK(), sort: req.GetSortBy(), limit: int(req.GetLimit()),
	}
	if q.sort == triskelev1.SortBy_SORT_BY_UNSPECIFIED {
		q.sort = triskelev1.SortBy_SORT_BY_RELEVANCE
	}
	return q, nil
}

// scan reads a row, with the number of hits of each leg, which every row has.
func (q question) scan(row pgx.CollectableRow, reports map[string]*triskelev1.LegReport) (*triskelev1.Hit, error) {
	h := &triskelev1.Hit{Namespace: q.namespace}
	var denseRank, graphRank, lexicalRank *int32
	var denseScore, graphScore, lexicalScore *float64
	r, err := postgres.ScanRecordAnd(row, &h.Score, &h.Prior, &denseRank, &denseScore, &graphRank, &graphScore, &lexicalRank, &lexicalScore,
		&reports[denseLeg].Returned, &reports[graphLeg].Returned, &reports[lexicalLeg].Returned)
	if err != nil {
		return nil, err
	}
	h.Id, h.Importance, h.CreatedAt = r.ID.String(), r.Importance, timestamppb.New(r.CreatedAt)
	if h.Memory, err = record.ToProto(r); err != nil {
		return nil, fmt.Errorf("memory %s: %w", r.ID, err)
	}
	for _, c := range []struct {
		leg   string
		list  list
		rank  *int32
		score *float64
	}{{denseLeg, q.dense, denseRank, denseScore}, {graphLeg, q.graph, graphRank, graphScore}, {lexicalLeg, q.lexical, lexicalRank, lexicalScore}} {
		if c.rank != nil {
			h.Contributions = append(h.Contributions, &triskelev1.Contribution{
				Leg: c.leg, Rank: *c.rank, RawScore: *c.score, ScoreKind: reports[c.leg].GetScoreKind(), Weight: c.list.weight,
				Value: c.list.weight / (q.k + float64(*c.rank)) * h.GetPrior(),
			})
		}
	}
	return h, nil
}
