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

// vectorTables are where vectors are stored: the database, or a transaction under way.
type vectorTables interface {
	// unembedded returns the distinct concepts and facts of memories without a vector of model. It leaves out phrases,
	// which are too weak.
	unembedded(ctx context.Context, namespace, model string, memories []uuid.UUID) ([]unembedded, error)
	// putVectors stores vectors of concepts and facts, and logs that the memories have changed. It skips deleted ones.
	putVectors(ctx context.Context, namespace, model string, memories []uuid.UUID, of []unembedded, vectors []code) error
}

// newVectorTables are the tables in a transaction that has just stored memories.
type newVectorTables interface {
	vectorTables
	// unembeddedOf returns those of the concepts without a vector of model.
	unembeddedOf(ctx context.Context, namespace, model string, concepts []int64) ([]unembedded, error)
}

// vectorStore stores vectors.
type vectorStore interface {
	vectorTables
	// namespaces returns those with a graph.
	namespaces(ctx context.Context) ([]string, error)
	// lacking returns the memories of which unembedded returns something.
	lacking(ctx context.Context, namespace, model string) ([]uuid.UUID, error)
	// names returns the names of concepts that exist.
	names(ctx context.Context, namespace string, ids []int64) (map[int64]string, error)
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
func (s *searcher) embed(ctx context.Context, in vectorTables, namespace string, memories []uuid.UUID) error {
	return s.embedLacking(ctx, in, namespace, memories, func(ctx context.Context) ([]unembedded, error) {
		return in.unembedded(ctx, namespace, s.config.modelName(), memories)
	})
}

// embedNew is embed for memories that the transaction has just stored. They state no facts that need vectors, and concepts are what
// they mention saliently.
func (s *searcher) embedNew(ctx context.Context, in newVectorTables, namespace string, memories []uuid.UUID, concepts []int64) error {
	return s.embedLacking(ctx, in, namespace, memories, func(ctx context.Context) ([]unembedded, error) {
		return in.unembeddedOf(ctx, namespace, s.config.modelName(), concepts)
	})
}

// embedLacking makes vectors for what lacks one.
func (s *searcher) embedLacking(ctx context.Context, in vectorTables, namespace string, memories []uuid.UUID, lacking func(context.Context) ([]unembedded, error)) error {
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
	return in.putVectors(ctx, namespace, s.config.modelName(), memories, list, codes)
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

func (s *searcher) embedAll(ctx context.Context, namespaces []string, documents map[string][]document) error {
	for _, namespace := range namespaces {
		if err := s.embed(ctx, s.store, namespace, documentIDs(documents[namespace])); err != nil {
			return err
		}
	}
	return nil
}

func documentIDs(docs []document) []uuid.UUID {
	ids := make([]uuid.UUID, len(docs))
	for i, d := range docs {
		ids[i] = d.record.ID
	}
	return ids
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
	namespaces, err := s.store.namespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		memories, err := s.store.lacking(ctx, namespace, s.config.modelName())
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(memories, embedBatch) {
			if err := s.embed(ctx, s.store, namespace, batch); err != nil {
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
