package graph

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// ExtractionQueue holds the memories for the extraction model.
const ExtractionQueue = "extraction"

const (
	// sameThing is how similar a name must be to a concept to resolve to it. 0 is unlike, 1 is the name
	// itself.
	sameThing = 0.9
	// maxExtractedFacts bounds the facts per memory.
	maxExtractedFacts = 64
)

// Extraction is a model's output for a memory.
type Extraction struct {
	Model  string
	Tokens int // cost
	Facts  []Fact
}

// Extractions stores the output of extraction models.
type Extractions interface {
	// SetExtraction switches extraction of new and changed memories. Off empties ExtractionQueue and keeps the facts.
	SetExtraction(ctx context.Context, on bool) error
	// Extraction reads the switch.
	Extraction(ctx context.Context) (on bool, err error)
	// EnqueueExtraction enqueues a namespace's unread memories and returns their number.
	EnqueueExtraction(ctx context.Context, namespace string) (int64, error)
	// Unread returns the ids of records that a model may and should read: current revision, not sensitive, not
	// superseded, and text not read before.
	Unread(ctx context.Context, namespace string, records []record.Record) ([]uuid.UUID, error)
	// PutExtraction replaces the facts extracted from a memory. It does nothing if the memory has
	// changed.
	PutExtraction(ctx context.Context, r record.Record, x Extraction) error
	// Extracted returns a namespace's totals.
	Extracted(ctx context.Context, namespace string) (Extracted, error)
	// Resolve maps names to the names of known concepts: the concept with the same key, else the most
	// similar one above sameThing. Unresolved names are left out.
	Resolve(ctx context.Context, namespace string, names []string) (map[string]string, error)
}

// Extracted counts memories read by a model, and their token cost.
type Extracted struct{ Memories, Tokens int64 }

// digest identifies the text that a model reads of a memory.
func digest(r record.Record) int64 {
	sum := sha256.Sum256([]byte("extraction " + r.Title + "\x00" + r.Content))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// factsOf converts an extraction to at most maxExtractedFacts statements.
func factsOf(r record.Record, x Extraction) ([]statement, map[int64]Concept, error) {
	facts := slices.Clone(x.Facts[:min(len(x.Facts), maxExtractedFacts)])
	for i := range facts {
		facts[i].Memory = r.ID
	}
	return statements(facts)
}

// Resolve implements Extractions.
func (s *searcher) Resolve(ctx context.Context, namespace string, names []string) (map[string]string, error) {
	found := map[string]int64{}
	unknown := slices.Clone(names)
	ready, err := s.withNetwork(ctx, namespace, func(n *network) {
		unknown = slices.DeleteFunc(unknown, func(name string) bool {
			at, known := n.concept[conceptID(Key(name))]
			if known = known && len(n.concepts[at].mentions) > 0; known {
				found[name] = n.concepts[at].id
			}
			return known
		})
	})
	if err != nil || !ready {
		return nil, err
	}
	if s.config.Embedder != nil && len(unknown) > 0 {
		asked, themselves, err := s.bothWays(ctx, unknown)
		if err != nil {
			return nil, err
		}
		scale, err := s.scale(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := s.withNetwork(ctx, namespace, func(n *network) {
			for i, name := range unknown {
				least := scale.unlike + sameThing*(cosine(asked[i], themselves[i])-scale.unlike)
				nearest := n.meanings.nearest(asked[i], 1, least, func(row uint32) bool {
					c := &n.concepts[row]
					return len(c.mentions) > 0 && digits(c.key) == digits(Key(name))
				}, n.byID)
				if len(nearest) > 0 && least > scale.unlike {
					found[name] = n.concepts[nearest[0].row].id
				}
			}
		}); err != nil {
			return nil, err
		}
	}
	ids := slices.Sorted(maps.Values(found))
	texts, err := s.store.names(ctx, namespace, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, id := range found {
		if known, there := texts[id]; there {
			out[name] = known
		}
	}
	return out, nil
}

// withNetwork calls fn with a namespace's graph. It returns false if the graph is not in memory.
func (s *searcher) withNetwork(ctx context.Context, namespace string, fn func(*network)) (bool, error) {
	view, err := s.images.View(ctx, namespace, replica.Need{Part: indexName}, s.share)
	if errors.Is(err, replica.ErrCold) || errors.Is(err, replica.ErrTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer view.Close()
	fn(view.Part.(*network))
	return true, nil
}
