package lexical

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// Index writes the forward index in the record's own transaction. It splits records into words before that begins, and so guesses the
// language of a namespace: that of the last write, if that was to the namespace, or the default.
type Index struct {
	Vectors bool // also writes tsvectors, which PostgreSQL has

	last atomic.Value // the map[string]Settings of the namespaces of the last write
}

// Prepare splits records into words. put adds or replaces documents of records, these or others, whose words have changed.
func (x *Index) Prepare(ctx context.Context, records []record.Record) (put func(context.Context, sqldb.Tx, []record.Record) error) {
	ready := split{}
	guessed, _ := x.last.Load().(map[string]Settings)
	_ = ready.add(ctx, records, guessed, x.Vectors) // those that fail are left to the transaction
	return func(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
		settings, err := lockSettings(ctx, tx, records)
		if err != nil {
			return err
		}
		x.last.Store(settings)
		if err := ready.add(ctx, records, settings, x.Vectors); err != nil {
			return err
		}
		return ready.put(ctx, tx, records)
	}
}

// put writes the documents of records.
func (s split) put(ctx context.Context, tx sqldb.Tx, records []record.Record) error {
	dialect := tx.DB().Dialect
	var put sqldb.Rows
	for _, r := range records {
		put = append(put, []any{r.Namespace, r.ID, s[r.Key()].terms, s[r.Key()].tsvector})
	}
	var b sqldb.Batch
	// The order prevents deadlocks of transactions with the same memories.
	b.Exec(`
		INSERT INTO lexical.documents AS d (namespace, memory_id, terms`+dialect(", tsv", "")+`)
		SELECT namespace, memory_id, terms`+dialect(", tsv::tsvector", "")+` FROM unnest($1::text[], $2::uuid[], $3::bytea[], $4::text[]) AS t (namespace, memory_id, terms, tsv)
		ORDER BY namespace, memory_id
		ON CONFLICT (namespace, memory_id) DO UPDATE SET terms = excluded.terms`+dialect(", tsv = excluded.tsv", "")+` WHERE d.terms IS DISTINCT FROM excluded.terms`, put)
	return tx.In(postgres.Entered).Send(ctx, &b)
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
	var b sqldb.Batch
	if tx.SQLite == nil {
		b.Exec(`SELECT pg_advisory_xact_lock_shared(`+settingsLock+`) FROM unnest($1::text[]) namespace`, namespaces)
	}
	var namespace string
	var s Settings
	b.Query(append([]any{&namespace}, s.targets()...), func() { found[namespace] = s }, `SELECT namespace, `+settingsColumns+` FROM lexical.settings WHERE namespace = ANY($1::text[])`, namespaces)
	return found, tx.In(sqldb.Scope(namespaces)).Send(ctx, &b)
}

// tsvector returns a memory's terms in the text form of PostgreSQL's tsvector, with positions and weights.
func tsvector(occurrences []occurrence) string {
	var b strings.Builder
	last := ""
	for _, o := range occurrences {
		separator := byte(',')
		if o.term != last {
			b.WriteByte(' ')
			b.WriteString(lexeme(o.term))
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

// lexeme quotes a term, as tsvector and tsquery read it.
func lexeme(term string) string { return "'" + lexemeQuoting.Replace(term) + "'" }
