// Package dense finds memories whose vectors are similar to the query's. Leg serves both stores.
//
// Index embeds records in batches and stores their vectors at unit length in half precision. Searches score by cosine
// similarity of the stored vectors, rounded alike, so both stores rank alike.
//
// The general process for a query is:
//  1. Embed the query, unless it has a vector of the model (queryVector).
//  2. View the namespace's image, which follows the database (searcher.go, package replica). It has the vectors (matrix.go).
//  3. Whiten the vector of a text by what the namespace's vectors share (whitening.go).
//  4. Estimate the similarities of quantization codes by table look-up (codes.go, estimator.go). A narrow filter is applied first,
//     any other to the best.
//  5. Rescore the likeliest by their vectors, which have 12 bits a component (nearest.go, packed.go).
//
// A namespace that is not in memory is searched in the database on PostgreSQL: exactly, or through an HNSW index once a
// namespace has been too large for memory (fallback.go).
// Models changes the embedding model while both stores serve (models.go, reembed.go).
package dense

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/x448/float16"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/querypath"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// indexName names this index in the queue.
const indexName = "dense"

const cosine = triskelev1.ScoreKind_SCORE_KIND_COSINE

// maxDimensions is the limit of an HNSW index on halfvec.
const maxDimensions = 4000

// scoreUnits is the number of score units in 1. Scores are rounded to units: the order of sums must not part equal vectors.
const scoreUnits = 1_000_000

func checkModel(m embed.Model) error {
	if m.Provider == "" || m.Name == "" || m.Dimensions < 1 || m.Dimensions > maxDimensions {
		return fmt.Errorf("embedding model %q/%q has %d dimensions: it must have a provider, a name, and 1 to %d dimensions",
			m.Provider, m.Name, m.Dimensions, maxDimensions)
	}
	return nil
}

var errNotFinite = errors.New("the vector has components that are not finite")

// unit scales a vector to length 1 and rounds it to half precision. It returns nil for a zero vector.
func unit(vector []float32) ([]float32, error) {
	rounded := slices.Clone(vector)
	if !embed.Normalize(rounded) {
		return nil, errNotFinite
	}
	zero := true
	for i, x := range rounded {
		rounded[i] = float16.Fromfloat32(x).Float32()
		zero = zero && x == 0
	}
	if zero {
		return nil, nil
	}
	return rounded, nil
}

// encode returns a vector's stored form in SQLite.
func encode(vector []float32) []byte {
	b := make([]byte, 0, 2*len(vector))
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(x).Bits())
	}
	return b
}

// fallingBack is an embedder with a fallback of the same model.
type fallingBack interface {
	// EmbedQueryOrFallBack is EmbedQuery and reports whether the fallback was used.
	EmbedQueryOrFallBack(ctx context.Context, text string) (vector []float32, fellBack bool, err error)
}

func embedQuery(ctx context.Context, embedder embed.Embedder, text string) (vector []float32, reason string, err error) {
	with, ok := embedder.(fallingBack)
	if !ok {
		vector, err = embedder.EmbedQuery(ctx, text)
		return vector, "", err
	}
	vector, fellBack, err := with.EmbedQueryOrFallBack(ctx, text)
	if fellBack {
		reason = "the first embedder failed or took too long, and the fallback embedder of the same model embedded the query"
	}
	return vector, reason, err
}

// notEmbedded is the error of a query without a vector.
func notEmbedded(cause error) error {
	switch {
	case errors.Is(cause, querypath.ErrNoTime):
		return &leg.UnableError{Reason: querypath.ErrNoTime.Error(), Cause: cause}
	case errors.Is(cause, endpoint.ErrUnchecked):
		return cause // the database's
	}
	return &leg.UnableError{Reason: "the query could not be embedded: the embedder failed", Cause: cause}
}

// queryVector returns the query's vector in unit form, or nil and the reason. With a reason, the fallback embedder made it.
func queryVector(ctx context.Context, embedder embed.Embedder, q leg.Query) (vector []float32, reason string, err error) {
	model := embedder.Model()
	switch {
	case len(q.Vector) == 0 && q.Text == "":
		return nil, "there is neither text nor a vector to search with", nil
	case len(q.Vector) == 0:
		vector, reason, err = embedQuery(ctx, embedder, model.QueryPrefix+q.Text)
		if err == nil && len(vector) != model.Dimensions {
			err = fmt.Errorf("%s/%s returned %d dimensions, not %d", model.Provider, model.Name, len(vector), model.Dimensions)
		}
		if err == nil {
			vector, err = unit(vector)
		}
		if err != nil {
			return nil, "", notEmbedded(err)
		}
		if vector == nil {
			reason = "the embedding model finds nothing in the query"
		}
	case len(q.Vector) != model.Dimensions:
		return nil, "", &record.FieldError{
			Field: "vector", MustBe: fmt.Sprintf("must have %d dimensions, those of model %s/%s", model.Dimensions, model.Provider, model.Name),
		}
	default:
		given := slices.Clone(q.Vector)
		clear(given[model.Queried():])
		if vector, err = unit(given); err != nil {
			return nil, "", &record.FieldError{Field: "vector", MustBe: "must have finite components"}
		}
		if vector == nil {
			reason = "the vector is zero and points nowhere"
		}
	}
	return vector, reason, nil
}

// embedding is a memory's revision with its unit vector, nil for an empty text.
type embedding struct {
	record.Record
	vector []float32
}

// embedRecords embeds the newest revision of each record in one call, sorted by key: transactions lock rows in one order. Sensitive
// ones need permission and a local model.
func embedRecords(ctx context.Context, embedder embed.Embedder, records []record.Record, sensitive bool) ([]embedding, error) {
	model := embedder.Model()
	var embeddings []embedding
	var texts []string
	for _, r := range record.Newest(records) {
		if r.Sensitive {
			if !sensitive {
				continue
			}
			if !model.Local {
				return nil, fmt.Errorf("%w: %w", queue.ErrPaused, errLocalTexts)
			}
		}
		embeddings = append(embeddings, embedding{Record: r})
		texts = append(texts, model.DocumentPrefix+embed.Text(r.Title, r.Content))
	}
	if len(texts) == 0 {
		return nil, nil
	}
	vectors, err := embedder.EmbedDocuments(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed %d memories: %w", len(texts), err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("%s/%s returned %d vectors for %d texts", model.Provider, model.Name, len(vectors), len(texts))
	}
	for i, vector := range vectors {
		if len(vector) != model.Dimensions {
			return nil, fmt.Errorf("%s/%s returned %d dimensions, not %d", model.Provider, model.Name, len(vector), model.Dimensions)
		}
		if embeddings[i].vector, err = unit(vector); err != nil {
			return nil, fmt.Errorf("embed memory %s: %w", embeddings[i].ID, err)
		}
	}
	return embeddings, nil
}

// share returns the time when a part, 0 to 1, of ctx's remaining time has passed. It is zero without a deadline.
func share(ctx context.Context, part float64) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.Duration(float64(deadline.Sub(now)) * part))
}

// passed reports whether a time from share has passed.
func passed(moment time.Time) bool { return !moment.IsZero() && !time.Now().Before(moment) }
