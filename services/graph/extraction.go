package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
)

// ExtractionQueue holds the memories for the extraction model.
const ExtractionQueue = "extraction"

const (
	// sameThing is how similar a name must be to a concept to resolve to it. 0 is unlike, 1 is the name itself.
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

// Extracted counts memories read by a model, and their token cost.
type Extracted struct{ Memories, Tokens int64 }

// digest identifies the text that a model reads of a memory.
func digest(r record.Record) int64 { return hash("extraction " + r.Title + "\x00" + r.Content) }

// SetExtraction switches extraction of new and changed memories. Off empties ExtractionQueue and keeps the facts.
func (l *Leg) SetExtraction(ctx context.Context, on bool) error {
	return l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		statement := tx.DB().Dialect(`SELECT graph.set_extraction(false)`, `DELETE FROM indexes WHERE name = '`+ExtractionQueue+`'`) // its tasks go by foreign key
		if on {
			statement = tx.DB().Dialect(`SELECT graph.set_extraction(true)`, `INSERT INTO indexes (name, sensitive) VALUES ('`+ExtractionQueue+`', 0) ON CONFLICT DO NOTHING`)
		}
		_, err := tx.In(postgres.AllNamespaces).Exec(ctx, statement)
		return err
	})
}

// Extraction reads the switch.
func (l *Leg) Extraction(ctx context.Context) (on bool, err error) {
	db := l.store.Searched()
	_, err = db.In(postgres.AllNamespaces).Get(ctx,
		db.Dialect(`SELECT graph.extraction()`, `SELECT EXISTS (SELECT 1 FROM indexes WHERE name = '`+ExtractionQueue+`')`), nil, &on)
	return on, err
}

// EnqueueExtraction enqueues a namespace's unread memories and returns their number.
func (l *Leg) EnqueueExtraction(ctx context.Context, namespace string) (n int64, err error) {
	err = l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		if tx.SQLite == nil {
			_, err = tx.In(namespace).Get(ctx, `SELECT graph.enqueue_extraction($1)`, []any{namespace}, &n)
			return err
		}
		n, err = tx.In(namespace).Exec(ctx, `
			INSERT INTO index_queue (namespace, memory_id, index_name, sensitive, revision, enqueued_at, not_before, sequence, since)
			SELECT m.namespace, m.id, '`+ExtractionQueue+`', 0, m.revision, now(), 0, m.sequence, m.sequence FROM memories m
			WHERE m.namespace = $1 AND NOT m.sensitive AND m.superseded_by IS NULL
				AND NOT EXISTS (SELECT 1 FROM graph_extractions x WHERE x.namespace = $1 AND x.memory_id = m.id)
			ON CONFLICT DO NOTHING`, namespace)
		return err
	})
	return n, err
}

// Unread returns the ids of records that a model may and should read: current, not sensitive, not superseded, and not read before.
func (l *Leg) Unread(ctx context.Context, namespace string, records []record.Record) ([]uuid.UUID, error) {
	if len(records) == 0 {
		return nil, nil
	}
	given := sqldb.Rows(slice.Map(records, func(r record.Record) []any { return []any{r.ID, r.Revision, digest(r)} }))
	return l.store.DB().In(namespace).IDs(ctx, `
		SELECT m.id FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS g (id, revision, digest) CROSS JOIN memory.memories m
		WHERE m.namespace = $1 AND m.id = g.id AND m.revision = g.revision AND NOT m.sensitive AND m.superseded_by IS NULL
			AND NOT EXISTS (SELECT 1 FROM graph.extractions x WHERE x.namespace = $1 AND x.memory_id = g.id AND x.digest = g.digest)`, namespace, given)
}

// PutExtraction replaces the facts extracted from a memory. It does nothing if the memory has changed.
func (l *Leg) PutExtraction(ctx context.Context, r record.Record, x Extraction) error {
	facts := slices.Clone(x.Facts[:min(len(x.Facts), maxExtractedFacts)])
	for i := range facts {
		facts[i].Memory = r.ID
	}
	list, err := statements(facts)
	if err != nil {
		return err
	}
	stored := false
	if err := l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		current, err := lock(ctx, tx, r.Namespace, []uuid.UUID{r.ID})
		if stored = err == nil && current[r.ID] == r.Revision; !stored {
			return err
		}
		b := &sqldb.Batch{}
		lockNamespace(tx, b, r.Namespace)
		b.Exec(`DELETE FROM graph.facts WHERE namespace = $1 AND memory_id = $2 AND origin = 'model'`, r.Namespace, r.ID)
		b.Exec(`
			INSERT INTO graph.extractions AS x (namespace, memory_id, digest, model, facts, tokens) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (namespace, memory_id) DO UPDATE SET digest = excluded.digest, model = excluded.model, facts = excluded.facts,
				tokens = x.tokens + excluded.tokens, extracted_at = excluded.extracted_at`, r.Namespace, r.ID, digest(r), x.Model, len(list), x.Tokens)
		if err := tx.In(postgres.Entered).Send(ctx, b); err != nil || len(list) == 0 {
			return err
		}
		_, err = putFacts(ctx, tx, r.Namespace, fromModel, list)
		return err
	}); err != nil || !stored {
		return err
	}
	return l.Index(ctx, []record.Record{r}) // removes stale mentions and embeds new names
}

// Extracted returns a namespace's totals.
func (l *Leg) Extracted(ctx context.Context, namespace string) (x Extracted, err error) {
	_, err = l.store.DB().In(namespace).Get(ctx,
		`SELECT count(*), coalesce(sum(tokens), 0) FROM graph.extractions WHERE namespace = $1`, []any{namespace}, &x.Memories, &x.Tokens)
	return x, err
}

// Resolve maps names to those of known concepts: with the same key, else the most similar one above sameThing.
func (l *Leg) Resolve(ctx context.Context, namespace string, names []string) (map[string]string, error) {
	found := map[string]int64{}
	var unknown []string
	ready, err := l.withNetwork(ctx, namespace, func(n *network) {
		for _, name := range names {
			if at, known := n.spelled(name); known {
				found[name] = n.concepts[at].id
			} else {
				unknown = append(unknown, name)
			}
		}
	})
	if err != nil || !ready {
		return nil, err
	}
	if l.config.Embedder != nil && len(unknown) > 0 {
		asked, themselves, err := l.bothWays(ctx, unknown)
		if err != nil {
			return nil, err
		}
		scale, err := l.scale(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := l.withNetwork(ctx, namespace, func(n *network) {
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
	ids := slices.AppendSeq([]int64{}, maps.Values(found)) // not nil, which means all
	slices.Sort(ids)
	texts, err := l.names(ctx, namespace, slices.Compact(ids))
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
func (l *Leg) withNetwork(ctx context.Context, namespace string, fn func(*network)) (bool, error) {
	view, err := l.images.View(ctx, namespace, replica.Need{Part: l.part}, l.share)
	if leg.NotInMemory(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer view.Close()
	fn(view.Part.(*network))
	return true, nil
}
