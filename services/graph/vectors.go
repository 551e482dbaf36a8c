package graph

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
)

const (
	// embedBatch is the number of memories per batch, maxTexts the texts per call.
	embedBatch = 64
	maxTexts   = 512
	// embedShare is the share of a search's time for embedding the query.
	embedShare = 0.4
	// embedRetry is the pause after the embedder failed.
	embedRetry = 30 * time.Second
)

// unembedded is a concept or, with a relation, a fact without a vector.
type unembedded struct {
	concept        int64 // or a fact's source
	target         int64
	relation, text string
}

// modelName identifies the vector space; "" without an embedder.
func (c Config) modelName() string {
	if c.Embedder == nil {
		return ""
	}
	return c.Embedder.Model().String()
}

// embed makes vectors for the names and facts of memories. It reads the texts from the tables, which have none of
// sensitive memories, and sends only texts that still exist.
func (s *searcher) embed(ctx context.Context, namespace string, memories []uuid.UUID) error {
	return s.embedLacking(ctx, memories, func(ctx context.Context) ([]unembedded, error) {
		return lackingIn(ctx, s.engine.written(), namespace, s.config.modelName(), memories)
	}, func(of []unembedded, vectors []code) error {
		return s.engine.update(ctx, func(t tables) error {
			b := &batch{namespace: namespace}
			if _, err := lock(ctx, t, b, memories); err != nil { // the same order of locks as in Index
				return err
			}
			b.lockNamespace()
			b.putVectors(s.config.modelName(), memories, of, vectors)
			t.changed(b, memories)
			return t.send(ctx, b)
		})
	})
}

// embedNew is embed for memories that the transaction has just stored. They state no facts that need vectors, and concepts are what
// they mention saliently.
func (s *searcher) embedNew(ctx context.Context, t tables, namespace string, memories []uuid.UUID, concepts []int64) error {
	b := &batch{namespace: namespace}
	return s.embedLacking(ctx, memories, func(ctx context.Context) ([]unembedded, error) {
		return queryUnembedded(ctx, t, b, dialects{
			"SELECT id, 0::bigint, '', name FROM graph.concepts WHERE namespace = $1 AND id = ANY($2) AND vector_model IS DISTINCT FROM $3",
			`SELECT c.id, 0, '', c.name FROM json_each(?2) j CROSS JOIN graph_concepts c ON c.namespace = ?1 AND c.id = j.value
			WHERE c.vector_model IS NOT ?3`,
		}, concepts, s.config.modelName())
	}, func(of []unembedded, vectors []code) error {
		b.putVectors(s.config.modelName(), memories, of, vectors)
		return t.send(ctx, b)
	})
}

// lackingIn returns the distinct concepts and facts of memories without a vector of model. It leaves out phrases, which are too weak.
func lackingIn(ctx context.Context, t tables, namespace, model string, memories []uuid.UUID) ([]unembedded, error) {
	return queryUnembedded(ctx, t, &batch{namespace: namespace}, dialects{
		`SELECT DISTINCT c.id, 0::bigint, '', c.name
		FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
		WHERE m.namespace = $1 AND m.memory_id = ANY($2) AND m.salience >= $4 AND c.vector_model IS DISTINCT FROM $3
		UNION ALL
		SELECT DISTINCT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
		FROM graph.facts e
		JOIN graph.concepts s ON s.namespace = e.namespace AND s.id = e.source_id
		JOIN graph.concepts t ON t.namespace = e.namespace AND t.id = e.target_id
		WHERE e.namespace = $1 AND e.memory_id = ANY($2) AND e.origin <> 'text' AND e.relation <> $5 AND e.vector_model IS DISTINCT FROM $3`,
		`SELECT DISTINCT c.id, 0, '', c.name
		FROM json_each(?2) j
		CROSS JOIN graph_memories m ON m.namespace = ?1 AND m.memory_id = unhex(j.value, '-')
		CROSS JOIN json_each(m.mentions) n
		CROSS JOIN graph_concepts c ON c.namespace = m.namespace AND c.id = n.value ->> 0
		WHERE n.value ->> 1 >= 100 * ?4 AND c.vector_model IS NOT ?3
		UNION ALL
		SELECT DISTINCT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
		FROM json_each(?2) j
		CROSS JOIN graph_facts e ON e.namespace = ?1 AND e.memory_id = unhex(j.value, '-')
		CROSS JOIN graph_concepts s ON s.namespace = e.namespace AND s.id = e.source_id
		CROSS JOIN graph_concepts t ON t.namespace = e.namespace AND t.id = e.target_id
		WHERE e.origin <> 'text' AND e.relation <> ?5 AND e.vector_model IS NOT ?3`,
	}, memories, model, salienceResolved, AliasRelation)
}

func queryUnembedded(ctx context.Context, t tables, b *batch, s dialects, args ...any) (out []unembedded, err error) {
	var u unembedded
	b.query(s, []any{&u.concept, &u.target, &u.relation, &u.text}, func() { out = append(out, u) }, args...)
	return out, t.send(ctx, b)
}

// putVectors queues the statements that store vectors of concepts, and of facts of memories. They skip deleted ones.
func (b *batch) putVectors(model string, memories []uuid.UUID, of []unembedded, vectors []code) {
	var named, stated list
	for i, u := range of {
		if u.relation == "" {
			named = append(named, []any{u.concept, vectors[i].bytes()})
		} else {
			stated = append(stated, []any{u.concept, u.target, u.relation, vectors[i].bytes()})
		}
	}
	b.each(dialects{
		`UPDATE graph.concepts c SET vector = v.vector, vector_model = $2 FROM unnest($3::bigint[], $4::bytea[]) AS v (id, vector)
		WHERE c.namespace = $1 AND c.id = v.id`,
		"UPDATE graph_concepts SET vector = ?4, vector_model = ?2 WHERE namespace = ?1 AND id = ?3",
	}, model, named)
	b.each(dialects{
		`UPDATE graph.facts e SET vector = v.vector, vector_model = $2
		FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::bytea[]) AS v (source, target, relation, vector)
		WHERE e.namespace = $1 AND e.memory_id = ANY($3) AND e.source_id = v.source AND e.target_id = v.target AND e.relation = v.relation`,
		`UPDATE graph_facts SET vector = ?7, vector_model = ?2
		WHERE namespace = ?1 AND memory_id IN (SELECT unhex(value, '-') FROM json_each(?3)) AND source_id = ?4 AND target_id = ?5 AND relation = ?6`,
	}, model, memories, stated)
}

// embedLacking makes vectors for what lacks one, and puts them.
func (s *searcher) embedLacking(ctx context.Context, memories []uuid.UUID, lacking func(context.Context) ([]unembedded, error), put func([]unembedded, []code) error) error {
	if s.config.Embedder == nil || len(memories) == 0 {
		return nil
	}
	prefix := s.config.Embedder.Model().DocumentPrefix
	list, err := lacking(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	codes := make([]code, 0, len(list))
	for batch := range slices.Chunk(list, maxTexts) {
		texts := make([]string, len(batch))
		for i, u := range batch {
			texts[i] = prefix + u.text
		}
		checked := endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) {
			still, err := lacking(ctx)
			gone := slices.ContainsFunc(batch, func(u unembedded) bool { return !slices.Contains(still, u) })
			return !gone, err
		})
		some, err := s.embedTexts(checked, texts)
		if err != nil {
			return err
		}
		codes = append(codes, some...)
	}
	return put(list, codes)
}

// embedTexts embeds texts that have the prefix already.
func (s *searcher) embedTexts(ctx context.Context, texts []string) ([]code, error) {
	model := s.config.Embedder.Model()
	vectors, err := s.config.Embedder.EmbedDocuments(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed %d names: %w", len(texts), err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("%s returned %d vectors for %d texts", model, len(vectors), len(texts))
	}
	codes := make([]code, len(vectors))
	for i, vector := range vectors {
		if len(vector) != model.Dimensions {
			return nil, fmt.Errorf("%s returned %d dimensions", model, len(vector))
		}
		codes[i] = encode(vector)
	}
	return codes, nil
}

// Refresh embeds concepts and facts without a vector of the configured model. It retries after errors and returns
// when it is done or ctx ends.
func (s *searcher) Refresh(ctx context.Context, log *slog.Logger) {
	if s.config.Embedder == nil {
		return
	}
	for {
		err := s.refresh(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.WarnContext(ctx, "names and facts of the graph lack vectors", "retry_in", embedRetry.String(), "error", err.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(embedRetry):
		}
	}
}

func (s *searcher) refresh(ctx context.Context) error {
	var namespaces []string
	var one string
	b := &batch{namespace: postgres.AllNamespaces}
	b.query(dialects{
		"SELECT DISTINCT namespace FROM graph.link_ends ORDER BY namespace", "SELECT DISTINCT namespace FROM graph_memories ORDER BY namespace",
	}, []any{&one}, func() { namespaces = append(namespaces, one) })
	if err := s.engine.written().send(ctx, b); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		memories, err := s.engine.lacking(ctx, namespace, s.config.modelName())
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(memories, embedBatch) {
			if err := s.embed(ctx, namespace, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// meaning is a query's vector with its model's scale.
type meaning struct {
	vector code // nil if there is none
	scale
}

// meaningOf embeds a query. It returns no vector if the embedder fails or is late: names link without it.
func (s *searcher) meaningOf(ctx context.Context, q leg.Query) meaning {
	if s.config.Embedder == nil {
		return meaning{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(embedShare*float64(time.Until(deadline))))
		defer cancel()
	}
	cosines, err := s.scale(ctx)
	if err != nil {
		return meaning{}
	}
	model, vector := s.config.Embedder.Model(), q.Vector
	if q.VectorModel != s.config.modelName() {
		if q.Text == "" {
			return meaning{}
		}
		if vector, err = s.config.Embedder.EmbedQuery(ctx, model.QueryPrefix+q.Text); err != nil {
			return meaning{}
		}
	}
	return meaning{encode(vector), cosines}
}
