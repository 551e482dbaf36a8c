package lexical

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/store/sqlite"
)

// Settings tell how a namespace is indexed and searched.
type Settings struct {
	Language string  // one of Languages
	K1       float64 // BM25's k1, 0 to 10: repeated terms count more with a higher k1
	B        float64 // BM25's b, 0 to 1: long memories rank lower with a higher b
	Prefix   bool    // the last word of a query also finds longer words
	// Scorer ranks if the request names no scorer. Unspecified means Config.Scorer.
	Scorer triskelev1.Scorer
}

// DefaultSettings returns the settings of a namespace without its own. docs/adr/0010-lexical-scorers.md justifies k1 and b.
func DefaultSettings() Settings { return Settings{Language: "english", K1: 1.2, B: 0.75} }

// threadK1 and threadB are multiples of k1 and b for a memory with neighbours in its thread. The words around complete it, so
// its own repetitions and length say less (docs/adr/0045-surroundings.md).
const threadK1, threadB = 3. / 8, 1. / 8

// Check returns an error if a setting is invalid.
func (s Settings) Check() error {
	if _, known := languages[s.Language]; !known {
		return fmt.Errorf("language must be one of %s", strings.Join(Languages(), ", "))
	}
	if !(s.K1 >= 0 && s.K1 <= 10) {
		return errors.New("k1 must be from 0 to 10")
	}
	if !(s.B >= 0 && s.B <= 1) {
		return errors.New("b must be from 0 to 1")
	}
	return nil
}

// language returns the rules for words. A language that only a newer program knows gets no stemmer.
func (s Settings) language() language { return languages[s.Language] }

// settingsColumns are the columns of Settings.targets, with the scorer by its number in the contract.
const settingsColumns = `language, k1, b, prefix, CASE scorer WHEN 'bm25' THEN 1 WHEN 'ts_rank' THEN 2 ELSE 0 END`

func (s *Settings) targets() []any {
	return []any{&s.Language, &s.K1, &s.B, &s.Prefix, (*int32)(&s.Scorer)}
}

// selectSettings selects the settings of namespace $1.
const selectSettings = `SELECT ` + settingsColumns + ` FROM lexical.settings WHERE namespace = $1`

// readSettings returns a namespace's settings, or the default ones.
func readSettings(ctx context.Context, db sqldb.Scoped, namespace string) (Settings, error) {
	s := DefaultSettings()
	_, err := db.Get(ctx, selectSettings, []any{namespace}, s.targets()...)
	return s, err
}

// Settings returns a namespace's settings, or the default ones if it has none.
func (l *Leg) Settings(ctx context.Context, namespace string) (Settings, error) {
	return readSettings(ctx, l.store.DB().In(namespace), namespace)
}

// Configured returns the namespaces with settings of their own, in order. They need not exist.
func (l *Leg) Configured(ctx context.Context) ([]string, error) {
	return sqldb.Column[string](ctx, l.store.DB().In(postgres.AllNamespaces), `SELECT namespace FROM lexical.settings ORDER BY namespace`)
}

// Set changes a namespace's settings. If the language changes, it indexes all memories again. The namespace need not exist.
func (l *Leg) Set(ctx context.Context, namespace string, s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	var former Settings
	err := l.store.Write(ctx, "", func(tx sqldb.Tx) (err error) {
		if tx.SQLite == nil {
			if _, err := tx.Postgres.Exec(ctx, `SELECT pg_advisory_xact_lock(`+settingsLock+`) FROM (SELECT $1::text AS namespace) n`, namespace); err != nil {
				return err
			}
		}
		if former, err = readSettings(ctx, tx.In(namespace), namespace); err != nil {
			return err
		}
		if _, err = tx.In(namespace).Exec(ctx, `INSERT INTO lexical.settings (namespace, language, k1, b, prefix, scorer) VALUES ($1, $2, $3, $4, $5, nullif($6, ''))
			ON CONFLICT (namespace) DO UPDATE SET language = excluded.language, k1 = excluded.k1, b = excluded.b, prefix = excluded.prefix, scorer = excluded.scorer`,
			namespace, s.Language, s.K1, s.B, s.Prefix, ScorerName(s.Scorer)); err != nil {
			return err
		}
		return note(ctx, tx, namespace, uuid.Nil) // no memory: images read the settings with any change
	})
	l.set.Told()
	if err != nil || s.Language == former.Language {
		return err
	}
	return l.Reindex(ctx, namespace)
}

// note tells images that the words of memories have changed.
func note(ctx context.Context, tx sqldb.Tx, namespace string, ids ...uuid.UUID) error {
	if tx.SQLite == nil {
		tx.Note(namespace, replica.Records, ids...)
		return nil
	}
	return sqlite.ExecEach(ctx, tx.SQLite, `INSERT INTO log (namespace, memory_id, part) SELECT name, ?, 'm' FROM namespaces WHERE name = ?`,
		ids, func(id uuid.UUID) []any { return []any{id[:], namespace} })
}

// reindexBatch is the number of memories that one transaction indexes.
const reindexBatch = 200

// Reindex indexes a namespace's memories again, by the rules of this program and the current settings.
func (l *Leg) Reindex(ctx context.Context, namespace string) error {
	defer l.set.Told()
	index := Index{Vectors: l.store.File == nil}
	for after, ids := uuid.Nil, []uuid.UUID(nil); ; after = ids[len(ids)-1] {
		err := l.store.Write(ctx, "", func(tx sqldb.Tx) error {
			records, err := tx.In(namespace).Records(ctx, `SELECT `+record.Columns+` FROM memory.memories m
				WHERE m.namespace = $1 AND m.id > $2 ORDER BY m.id LIMIT $3 FOR NO KEY UPDATE`, namespace, after[:], reindexBatch)
			ids = slice.Map(records, func(r record.Record) uuid.UUID { return r.ID })
			if err != nil || len(records) == 0 {
				return err
			}
			if err := index.Prepare(ctx, nil)(ctx, tx, records); err != nil {
				return err
			}
			return note(ctx, tx, namespace, ids...)
		})
		if err != nil || len(ids) < reindexBatch {
			return err
		}
	}
}
