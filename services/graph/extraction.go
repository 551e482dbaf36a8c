package graph

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// ExtractionQueue is the queue of memories that a language model is to read.
const ExtractionQueue = "extraction"

const (
	// sameThing is how near a name must be to a concept to be taken for another name of it, on the way from unlike, 0, to
	// the name itself, 1.
	sameThing = 0.9
	// maxExtractedFacts is how many facts a model may find in a memory.
	maxExtractedFacts = 64
)

// Extraction is what a model found in a memory.
type Extraction struct {
	Model  string
	Tokens int // that it cost
	Facts  []Fact
}

// Extractions keeps what a language model read out of memories.
type Extractions interface {
	// SetExtraction switches on or off that new and changed memories are put into ExtractionQueue. Off empties it; facts stay.
	SetExtraction(ctx context.Context, on bool) error
	// Extraction says which it is.
	Extraction(ctx context.Context) (on bool, err error)
	// EnqueueExtraction puts those memories of a namespace into the queue that no model has read, and counts them.
	EnqueueExtraction(ctx context.Context, namespace string) (int64, error)
	// Unread returns which of a namespace's memories a model may be shown and has to be: those that are still as given, not
	// sensitive, not superseded, and not read with this text before.
	Unread(ctx context.Context, namespace string, records []record.Record) ([]uuid.UUID, error)
	// PutExtraction stores what was found in a memory instead of what was found there before; nothing if the memory has
	// changed since.
	PutExtraction(ctx context.Context, r record.Record, x Extraction) error
	// Extracted counts what models have read of a namespace.
	Extracted(ctx context.Context, namespace string) (Extracted, error)
	// Resolve returns the concepts that names stand for, by name, as they are written: the concept of that name or, if there
	// is none, the nearest in meaning if it is very near. A name that stands for nothing known is left out.
	Resolve(ctx context.Context, namespace string, names []string) (map[string]string, error)
}

// Extracted is what models have read of a namespace, and what the memories that are still there have cost.
type Extracted struct{ Memories, Tokens int64 }

// digest stands for the text of a memory that a model is shown.
func digest(r record.Record) int64 {
	sum := sha256.Sum256([]byte("extraction " + r.Title + "\x00" + r.Content))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// factsOf prepares what was found in a memory, at most maxExtractedFacts.
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
	ready, err := s.replicas.with(ctx, namespace, func(n *network) {
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
		if _, err := s.replicas.with(ctx, namespace, func(n *network) {
			for i, name := range unknown {
				least := scale.unlike + sameThing*(cosine(asked[i], themselves[i])-scale.unlike)
				nearest := n.meanings.nearest(asked[i], 1, least, func(row int32) bool {
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
	ids := make([]int64, 0, len(found))
	for _, id := range found {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[int64])
	texts, err := s.store.texts(ctx, namespace, "", slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, id := range found {
		if text, there := texts[id]; there {
			out[name] = text.name
		}
	}
	return out, nil
}
