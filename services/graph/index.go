package graph

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Index implements queue.Indexer.
func (l *Leg) Index(ctx context.Context, records []record.Record) error {
	namespaces, documents := documents(records)
	if err := l.store.Write(ctx, "", func(tx sqldb.Tx) error {
		current := map[string][]document{}
		for _, ns := range namespaces { // all memories before the first namespace: forgetting a memory uses the same order
			revisions, err := lock(ctx, tx, ns, documentIDs(documents[ns]))
			if err != nil {
				return err
			}
			current[ns] = slices.DeleteFunc(slices.Clone(documents[ns]), func(d document) bool { return revisions[d.record.ID] != d.record.Revision })
		}
		for _, ns := range namespaces {
			if _, err := putDocuments(ctx, tx, ns, current[ns], false); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, ns := range namespaces {
		if err := l.embed(ctx, ns, documentIDs(documents[ns])); err != nil {
			return err
		}
	}
	return nil
}

// putTogether is how many documents at most are put at a time: the mentions so far are counted between.
const putTogether = 256

// Prepare implements memory.Derived: it extracts what records say.
func (l *Leg) Prepare(_ context.Context, records []record.Record) (sqldb.Putter, error) {
	namespaces, documents := documents(records)
	return func(ctx context.Context, tx sqldb.Tx, stored map[record.Key]bool) error {
		for _, ns := range namespaces {
			docs := slices.DeleteFunc(slices.Clone(documents[ns]), func(d document) bool { return !stored[d.record.Key()] })
			for some := range slices.Chunk(docs, putTogether) {
				concepts, err := putDocuments(ctx, tx, ns, some, true)
				if err != nil {
					return err
				}
				if err := l.embedNew(ctx, tx, ns, documentIDs(some), concepts); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// putDocuments replaces current documents of a namespace. Fresh ones replace none. It returns the concepts that they mention saliently.
func putDocuments(ctx context.Context, tx sqldb.Tx, namespace string, docs []document, fresh bool) (concepts []int64, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	var phrases []phrase
	var named []Concept
	var read sqldb.Rows
	var aliases []statement
	ids := documentIDs(docs)
	for i, d := range docs {
		phrases, named, aliases = append(phrases, d.phrases...), append(named, d.concepts...), append(aliases, d.aliases()...)
		read = append(read, []any{ids[i], digest(d.record)})
	}
	had, ends := map[uuid.UUID][]mention{}, map[uuid.UUID][]int64{}
	b := &sqldb.Batch{}
	lockNamespace(tx, b, namespace)
	if !fresh {
		b.Exec(`
			DELETE FROM graph.facts AS f WHERE f.namespace = $1 AND f.memory_id = ANY($2::uuid[]) AND (f.origin = 'text' OR f.origin = 'model'
				AND f.memory_id NOT IN (SELECT x.memory_id FROM unnest($3::uuid[], $4::bigint[]) AS m (id, digest)
					JOIN graph.extractions x ON x.namespace = $1 AND x.memory_id = m.id AND x.digest = m.digest))`, namespace, ids, read)
		var memory uuid.UUID
		var source, target int64
		b.Query([]any{&memory, &source, &target}, func() { ends[memory] = append(ends[memory], source, target) },
			`SELECT memory_id, source_id, target_id FROM graph.facts WHERE namespace = $1 AND memory_id = ANY($2::uuid[])`, namespace, ids)
		readMentions(tx.DB(), b, namespace, ids, func(memory uuid.UUID, m mention) { had[memory] = append(had[memory], m) })
	}
	known, err := knownConcepts(ctx, tx, namespace, b, phrases)
	if err != nil {
		return nil, err
	}
	now := mentionsIn(docs, known, ends)
	entries := make([]entry, len(docs))
	for i, d := range docs {
		entries[i] = entry{ids[i], had[ids[i]], now[i], authorLinks(d.record)}
	}
	putConcepts(b, namespace, named)
	put(tx, b, namespace, entries, true, fresh)
	putStatements(b, namespace, fromText, aliases)
	return salient(slices.Concat(now...)), tx.In(postgres.Entered).Send(ctx, b)
}

// knownConcepts enters a namespace, runs a batch, and returns which phrases are known concepts. If there are fewer concepts than phrases,
// it returns them all, which is faster. SQLite reads an index of ids alone: rows hold vectors.
func knownConcepts(ctx context.Context, tx sqldb.Tx, namespace string, b *sqldb.Batch, phrases []phrase) (map[int64]bool, error) {
	known, ids, table := map[int64]bool{}, conceptIDs(phrases), tx.DB().Dialect("graph.concepts", "graph_concepts INDEXED BY graph_concepts_by_id")
	var id int64
	query := func(in, condition string, arg any) error {
		b.Query([]any{&id}, func() { known[id] = true }, `SELECT id FROM `+table+` WHERE namespace = $1 AND `+condition, namespace, arg)
		return tx.In(in).Send(ctx, b)
	}
	if err := query(namespace, `NOT EXISTS (SELECT 1 FROM `+table+` WHERE namespace = $1 LIMIT 1 OFFSET $2)`, len(ids)); err != nil || len(known) > 0 {
		return known, err
	}
	return known, query(postgres.Entered, `id = ANY($2::bigint[])`, ids)
}

// mention is a concept of one memory.
type mention struct {
	concept  int64
	salience float64
}

// document is a record to be indexed.
type document struct {
	record   record.Record
	concepts []Concept
	phrases  []phrase // in the text, to be resolved against known concepts
}

// documents prepares records by namespace, the newest revision of each, in the order in which transactions take locks.
func documents(records []record.Record) (namespaces []string, byNamespace map[string][]document) {
	byNamespace = map[string][]document{}
	for _, r := range record.Newest(records) {
		if r.Sensitive {
			continue
		}
		if byNamespace[r.Namespace] == nil {
			namespaces = append(namespaces, r.Namespace)
		}
		byNamespace[r.Namespace] = append(byNamespace[r.Namespace], document{r, Extract(r), phrases(words(r.Title+"\n"+r.Content, maxDocumentWords), maxResolvedWords)})
	}
	return namespaces, byNamespace
}

// linkedTogether is how many documents in a row are linked to each other's concepts. Ranks were measured with this number.
const linkedTogether = 64

// mentionsIn returns the mentions of each document. known are the concepts before the documents; those of the documents are added.
func mentionsIn(docs []document, known map[int64]bool, ends map[uuid.UUID][]int64) [][]mention {
	out := make([][]mention, 0, len(docs))
	for together := range slices.Chunk(docs, linkedTogether) {
		for _, d := range together {
			for _, c := range d.concepts {
				known[conceptID(c.Key)] = true
			}
		}
		for _, d := range together {
			out = append(out, d.mentions(known, ends[d.record.ID]))
		}
	}
	return out
}

// salient returns the distinct concepts that are mentioned saliently enough to get a vector.
func salient(mentions []mention) []int64 {
	var ids []int64
	for _, m := range mentions {
		if m.salience >= salienceResolved {
			ids = append(ids, m.concept)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mentions returns the document's concepts and the known ones in its text, most salient first, and the ends of its facts.
func (d document) mentions(known map[int64]bool, ends []int64) []mention {
	var out []mention
	seen := map[int64]bool{}
	add := func(id int64, salience float64) {
		if !seen[id] {
			seen[id] = true
			out = append(out, mention{id, salience})
		}
	}
	for _, c := range d.concepts {
		add(conceptID(c.Key), c.Salience)
	}
	for _, p := range longest(d.phrases, known) {
		if len(out) < maxConcepts {
			add(p.concept, salienceResolved)
		}
	}
	for _, id := range ends {
		add(id, salienceFact)
	}
	return out
}

// aliases states which short forms of concepts the document has.
func (d document) aliases() (list []statement) {
	for _, c := range d.concepts {
		if c.AliasOf != "" && slices.ContainsFunc(d.concepts, func(other Concept) bool { return other.Key == c.AliasOf }) {
			list = append(list, statement{Fact: Fact{Memory: d.record.ID}, fact: fact{conceptID(c.Key), conceptID(c.AliasOf), AliasRelation}})
		}
	}
	return list
}

func documentIDs(docs []document) []uuid.UUID {
	return slice.Map(docs, func(d document) uuid.UUID { return d.record.ID })
}

// endKey hashes a memory's id for the far end of a link. A link outlives its target and must not reveal the deleted id.
func endKey(memory uuid.UUID) int64 { return hash("memory " + string(memory[:])) }

// authorLink is a link of one memory.
type authorLink struct {
	Target   int64  `json:"to"` // an endKey
	Relation string `json:"as"`
}

// authorLinks returns a record's distinct links, sorted.
func authorLinks(r record.Record) []authorLink {
	var out []authorLink
	for _, l := range r.Links {
		if l.Target != r.ID {
			out = append(out, authorLink{endKey(l.Target), l.Relation})
		}
	}
	slices.SortFunc(out, func(a, b authorLink) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Relation, b.Relation))
	})
	return slices.Compact(out)
}
