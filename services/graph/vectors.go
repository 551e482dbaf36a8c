package graph

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
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

// CheckModel returns an error if a namespace has vectors, but none of the configured model. Those of its memories would be replaced, and
// services of the other model do not see what replaces them.
func (l *Leg) CheckModel(ctx context.Context, namespace string) error {
	var model string
	_, err := l.store.DB().In(namespace).Get(ctx, `SELECT vector_model FROM graph.concepts
		WHERE namespace = $1 AND vector_model IS NOT NULL ORDER BY vector_model = $2 DESC LIMIT 1`, []any{namespace, l.config.modelName()}, &model)
	if err == nil && model != "" && model != l.config.modelName() {
		err = fmt.Errorf("the graph of %s has vectors of %s, not of %s: give the --embedder of that model", namespace, model, l.config.modelName())
	}
	return err
}

// embed makes vectors for the names and facts of memories.
func (l *Leg) embed(ctx context.Context, namespace string, memories []uuid.UUID) error {
	if l.config.Embedder == nil || len(memories) == 0 {
		return nil
	}
	var mentions []mention
	b, db := &sqldb.Batch{}, l.store.DB()
	readMentions(db, b, namespace, memories, func(_ uuid.UUID, m mention) { mentions = append(mentions, m) })
	if err := db.In(namespace).Send(ctx, b); err != nil {
		return err
	}
	of, vectors, err := l.vectors(ctx, db.In(namespace), namespace, memories, salient(mentions))
	if err != nil || len(of) == 0 {
		return err
	}
	return l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		if _, err := lock(ctx, tx, namespace, memories); err != nil { // the same order of locks as in Index
			return err
		}
		b := &sqldb.Batch{}
		lockNamespace(tx, b, namespace)
		l.putVectors(tx, b, namespace, memories, of, vectors)
		changed(tx, b, namespace, memories)
		return tx.In(postgres.Entered).Send(ctx, b)
	})
}

// embedNew is embed for memories that the transaction has just stored. concepts are what they mention saliently.
func (l *Leg) embedNew(ctx context.Context, tx sqldb.Tx, namespace string, memories []uuid.UUID, concepts []int64) error {
	if l.config.Embedder == nil {
		return nil
	}
	of, vectors, err := l.vectors(ctx, tx.In(postgres.Entered), namespace, memories, concepts)
	if err != nil {
		return err
	}
	b := &sqldb.Batch{}
	l.putVectors(tx, b, namespace, memories, of, vectors)
	return tx.In(postgres.Entered).Send(ctx, b)
}

// putVectors stores vectors of concepts, and of facts of memories. It skips deleted ones.
func (l *Leg) putVectors(tx sqldb.Tx, b *sqldb.Batch, namespace string, memories []uuid.UUID, of []unembedded, vectors []code) {
	model := l.config.modelName()
	var named, stated sqldb.Rows
	for i, u := range of {
		if u.relation == "" {
			named = append(named, []any{u.concept, []byte(vectors[i])})
		} else {
			stated = append(stated, []any{u.concept, u.target, u.relation, []byte(vectors[i])})
		}
	}
	if tx.SQLite != nil { // an UPDATE does not begin with the rows, and JSON has no bytes
		b.Each(`UPDATE graph_concepts SET vector = $4, vector_model = $2 WHERE namespace = $1 AND id = $3`, named, namespace, model)
		b.Each(`UPDATE graph_facts SET vector = $7, vector_model = $2
				WHERE namespace = $1 AND memory_id = ANY($3::uuid[]) AND source_id = $4 AND target_id = $5 AND relation = $6`, stated, namespace, model, memories)
		return
	}
	b.Exec(`
		UPDATE graph.concepts c SET vector = v.vector, vector_model = $2 FROM unnest($3::bigint[], $4::bytea[]) AS v (id, vector)
		WHERE c.namespace = $1 AND c.id = v.id`, namespace, model, named)
	b.Exec(`
		UPDATE graph.facts e SET vector = v.vector, vector_model = $2
		FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::bytea[]) AS v (source, target, relation, vector)
		WHERE e.namespace = $1 AND e.memory_id = ANY($3) AND e.source_id = v.source AND e.target_id = v.target AND e.relation = v.relation`,
		namespace, model, memories, stated)
}

// vectors makes the vectors that concepts and facts of memories lack. It sends only texts of the tables that still exist: none of
// sensitive memories.
func (l *Leg) vectors(ctx context.Context, db sqldb.Scoped, namespace string, memories []uuid.UUID, concepts []int64) (of []unembedded, vectors []code, err error) {
	lacking := func(ctx context.Context) ([]unembedded, error) {
		return sqldb.Query(ctx, db, `
			SELECT id, 0, '', name FROM graph.concepts WHERE namespace = $1 AND id = ANY($2::bigint[]) AND vector_model IS DISTINCT FROM $4
			UNION ALL
			SELECT e.source_id, e.target_id, e.relation, s.name || ' ' || e.relation || ' ' || t.name
			FROM graph.facts e CROSS JOIN graph.concepts s CROSS JOIN graph.concepts t
			WHERE e.namespace = $1 AND e.memory_id = ANY($3::uuid[]) AND e.origin <> 'text' AND e.relation <> $5 AND e.vector_model IS DISTINCT FROM $4
				AND s.namespace = $1 AND s.id = e.source_id AND t.namespace = $1 AND t.id = e.target_id`,
			[]any{namespace, concepts, memories, l.config.modelName(), AliasRelation}, sqldb.Into(func(u *unembedded) []any {
				return []any{&u.concept, &u.target, &u.relation, &u.text}
			}))
	}
	if of, err = lacking(ctx); err != nil {
		return nil, nil, err
	}
	for batch := range slices.Chunk(of, maxTexts) {
		checked := endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) {
			still, err := lacking(ctx)
			gone := slices.ContainsFunc(batch, func(u unembedded) bool { return !slices.Contains(still, u) })
			return !gone, err
		})
		some, err := l.embedTexts(checked, slice.Map(batch, func(u unembedded) string { return u.text }))
		if err != nil {
			return nil, nil, err
		}
		vectors = append(vectors, some...)
	}
	return of, vectors, nil
}

// embedTexts embeds texts as documents.
func (l *Leg) embedTexts(ctx context.Context, texts []string) ([]code, error) {
	model := l.config.Embedder.Model()
	vectors, err := l.config.Embedder.EmbedDocuments(ctx, slice.Map(texts, func(text string) string { return model.DocumentPrefix + text }))
	if err != nil {
		return nil, fmt.Errorf("embed %d names: %w", len(texts), err)
	}
	return slice.Map(vectors, encode), nil
}

// Refresh embeds concepts and facts without a vector of the configured model. It retries after errors, until ctx ends.
func (l *Leg) Refresh(ctx context.Context, log *slog.Logger) {
	if l.config.Embedder == nil {
		return
	}
	_, _ = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, l.refresh(ctx) }, // fails when ctx ends
		backoff.WithBackOff(backoff.NewConstantBackOff(embedRetry)), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
			log.WarnContext(ctx, "names and facts of the graph lack vectors", "retry_in", embedRetry.String(), "error", err.Error())
		}))
}

func (l *Leg) refresh(ctx context.Context) error {
	namespaces, err := l.store.DB().Namespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		memories, err := l.lacking(ctx, namespace, l.config.modelName())
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(memories, embedBatch) {
			if err := l.embed(ctx, namespace, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacking returns the memories for which vectors makes some. SQLite would take ten times as long to look into JSON.
func (l *Leg) lacking(ctx context.Context, namespace, model string) (memories []uuid.UUID, err error) {
	if l.store.File == nil {
		return l.store.DB().In(namespace).IDs(ctx, `
			SELECT m.memory_id FROM graph.memory_concepts m JOIN graph.concepts c ON c.namespace = m.namespace AND c.id = m.concept_id
			WHERE m.namespace = $1 AND m.salience >= $3 AND c.vector_model IS DISTINCT FROM $2
			UNION
			SELECT memory_id FROM graph.facts
			WHERE namespace = $1 AND vector_model IS DISTINCT FROM $2 AND origin <> 'text' AND relation <> $4`, namespace, model, salienceResolved, AliasRelation)
	}
	err = l.store.File.Snapshot(ctx, func(all *sqlite.Snapshot) error {
		var concept int64
		lacking := map[int64]bool{}
		if err := all.Each(ctx, "SELECT id FROM graph_concepts WHERE namespace = ?1 AND vector_model IS NOT ?2", []any{namespace, model}, []any{&concept}, func() error {
			lacking[concept] = true
			return nil
		}); err != nil {
			return err
		}
		var id uuid.UUID
		add := func() error {
			memories = append(memories, id)
			return nil
		}
		if err := all.Each(ctx, `
			SELECT DISTINCT memory_id FROM graph_facts
			WHERE namespace = ?1 AND vector_model IS NOT ?2 AND origin <> 'text' AND relation <> '`+AliasRelation+`'`, []any{namespace, model}, []any{&id}, add); err != nil {
			return err
		}
		if len(lacking) == 0 {
			return nil
		}
		var mentions []byte
		return all.Each(ctx, "SELECT memory_id, mentions FROM graph_memories WHERE namespace = ?1", []any{namespace}, []any{&id, &mentions}, func() error {
			lacks := false
			eachMention(mentions, func(m mention) { lacks = lacks || m.salience >= salienceResolved && lacking[m.concept] })
			if lacks {
				return add()
			}
			return nil
		})
	})
	return memories, err
}

// meaning is a query's vector with its model's scale.
type meaning struct {
	vector code // nil if there is none
	scale
}

// meaningOf embeds a query. There is no vector if the embedder fails, is late, or does not tell the samples apart: names do without.
func (l *Leg) meaningOf(ctx context.Context, q leg.Query) meaning {
	if l.config.Embedder == nil || q.Text == "" {
		return meaning{}
	}
	ctx, cancel := withShare(ctx, embedShare)
	defer cancel()
	cosines, err := l.scale(ctx)
	if err != nil || cosines.same <= cosines.unlike {
		return meaning{}
	}
	vector, err := l.config.Embedder.EmbedQuery(ctx, l.config.Embedder.Model().QueryPrefix+q.Text)
	if err != nil {
		return meaning{}
	}
	return meaning{encode(vector), cosines}
}
