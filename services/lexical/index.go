package lexical

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Index writes the forward index in the record's own transaction.
type Index struct {
	Vectors bool // also writes tsvectors, which PostgreSQL has
	splitter
}

// Prepare splits records into words. put adds or replaces documents of records, these or others. A document whose words have not
// changed is not written.
func (x *Index) Prepare(ctx context.Context, records []record.Record) (put func(context.Context, sqldb.Tx, []record.Record) error) {
	ready := x.split(ctx, records, x.Vectors)
	return ready.put
}

// put writes the documents of records.
func (s split) put(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
	settings, err := lockSettings(ctx, tx, records)
	if err != nil {
		return err
	}
	rows, err := s.in(ctx, records, settings)
	if err != nil {
		return err
	}
	if tx.SQLite != nil {
		next := 0
		return sqlite.ExecEach(ctx, tx.SQLite, `INSERT INTO lexical_documents (namespace, memory_id, terms) VALUES (?, ?, ?)
			ON CONFLICT (namespace, memory_id) DO UPDATE SET terms = excluded.terms WHERE terms IS NOT excluded.terms`,
			records, func(r record.Record) []any {
				next++
				return []any{r.Namespace, r.ID[:], rows[next-1].terms}
			})
	}
	n := len(records)
	namespaces, ids, vectors, terms := make([]string, n), make([]uuid.UUID, n), make([]string, n), make([][]byte, n)
	for i, r := range records {
		namespaces[i], ids[i], vectors[i], terms[i] = r.Namespace, r.ID, rows[i].tsvector, rows[i].terms
	}
	// The order prevents deadlocks of transactions with the same memories.
	_, err = tx.Postgres.Exec(ctx, `
		INSERT INTO lexical.documents AS d (namespace, memory_id, tsv, terms)
		SELECT namespace, memory_id, tsv::tsvector, terms FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bytea[]) AS t (namespace, memory_id, tsv, terms)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET tsv = excluded.tsv, terms = excluded.terms WHERE d.terms IS DISTINCT FROM excluded.terms`,
		namespaces, ids, vectors, terms)
	return err
}

// settingsLock is the key of an advisory lock. Transactions that write a namespace's index share it. A transaction that
// changes the namespace's settings holds it exclusively, so that no document stays indexed by former settings.
const settingsLock = `hashtextextended('lexical settings of ' || namespace, 0)`

// lockSettings returns the settings of each record's namespace, and locks them until the transaction ends.
func lockSettings(ctx context.Context, tx sqldb.Tx, records []record.Record) (map[string]Settings, error) {
	found := map[string]Settings{}
	for _, r := range records {
		found[r.Namespace] = DefaultSettings()
	}
	namespaces := slices.Sorted(maps.Keys(found))
	if tx.SQLite != nil {
		for _, namespace := range namespaces {
			var err error
			if found[namespace], err = readSettings(ctx, tx.In(namespace), namespace); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	batch := &pgx.Batch{}
	if len(namespaces) == 1 {
		postgres.SetNamespace(batch, namespaces[0])
	} else {
		postgres.SetNamespace(batch, postgres.AllNamespaces)
	}
	batch.Queue(`SELECT pg_advisory_xact_lock_shared(`+settingsLock+`) FROM unnest($1::text[]) namespace`, namespaces)
	batch.Queue(`SELECT namespace, `+settingsColumns+` FROM lexical.settings WHERE namespace = ANY($1)`, namespaces).Query(func(rows pgx.Rows) error {
		var namespace, scorer string
		var s Settings
		_, err := pgx.ForEachRow(rows, append([]any{&namespace}, s.targets(&scorer)...), func() error {
			s.Scorer = ScorerByName(scorer)
			found[namespace] = s
			return nil
		})
		return err
	})
	return found, tx.Postgres.SendBatch(ctx, batch).Close()
}

// tsvector returns a memory's terms in the text form of PostgreSQL's tsvector, with positions and weights.
func tsvector(occurrences []occurrence) string {
	var b strings.Builder
	last := ""
	for _, o := range occurrences {
		separator := byte(',')
		if o.term != last {
			b.WriteByte(' ')
			writeLexeme(&b, o.term)
			separator = ':'
		}
		b.WriteByte(separator)
		b.WriteString(strconv.Itoa(o.position + 1))
		b.WriteByte("ABCD"[o.field])
		last = o.term
	}
	return b.String()
}

// lexemeQuoting escapes quotes and backslashes in a quoted lexeme.
var lexemeQuoting = strings.NewReplacer(`'`, `''`, `\`, `\\`)

// writeLexeme writes a quoted lexeme, as tsvector and tsquery read it.
func writeLexeme(b *strings.Builder, lexeme string) {
	b.WriteByte('\'')
	b.WriteString(lexemeQuoting.Replace(lexeme))
	b.WriteByte('\'')
}
