package lexical

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/store/record"
)

// maxOthers bounds the languages that are remembered.
const maxOthers = 1000

// split has the rows of records that are split into words.
type split struct {
	by        *Index            // nil if it should not learn
	vectors   bool              // rows have a tsvector, too
	languages map[string]string // by namespace
	rows      map[record.Key]splitRecord
}

type splitRecord struct {
	of record.Record
	row
}

// row is the words of a record, as databases keep them.
type row struct {
	terms    []byte
	tsvector string
}

// split splits records into words, in the languages that it guesses. Records that fail are left to the transaction.
func (x *Index) split(ctx context.Context, records []record.Record) split {
	ready := split{by: x, vectors: x.Vectors, languages: map[string]string{}, rows: make(map[record.Key]splitRecord, len(records))}
	guessed := map[string]Settings{}
	x.mu.Lock()
	for _, r := range records {
		settings := DefaultSettings()
		if other, known := x.others[r.Namespace]; known {
			settings.Language = other
		}
		guessed[r.Namespace], ready.languages[r.Namespace] = settings, settings.Language
	}
	x.mu.Unlock()
	rows, err := rowsOf(ctx, records, guessed, x.Vectors)
	if err != nil {
		return ready
	}
	for i, r := range records {
		ready.rows[r.Key()] = splitRecord{r, rows[i]}
	}
	return ready
}

// in returns the rows of records in the languages that the settings have.
func (s split) in(ctx context.Context, records []record.Record, settings map[string]Settings) ([]row, error) {
	if s.by != nil {
		s.by.learn(settings)
	}
	rows := make([]row, len(records))
	var places []int // of records that are not ready
	var missing []record.Record
	for i, r := range records {
		if ready := s.rows[r.Key()]; sameWords(ready.of, r) && s.languages[r.Namespace] == settings[r.Namespace].Language {
			rows[i] = ready.row
		} else {
			places, missing = append(places, i), append(missing, r)
		}
	}
	made, err := rowsOf(ctx, missing, settings, s.vectors)
	for i, row := range made {
		rows[places[i]] = row
	}
	return rows, err
}

// sameWords reports whether two records have the same texts.
func sameWords(a, b record.Record) bool {
	return a.Content == b.Content && a.Title == b.Title && a.Category == b.Category && slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags)
}

// learn remembers languages for the next time.
func (x *Index) learn(settings map[string]Settings) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for namespace, is := range settings {
		switch {
		case is.Language == DefaultSettings().Language:
			delete(x.others, namespace)
		case x.others == nil || len(x.others) >= maxOthers:
			x.others = map[string]string{namespace: is.Language}
		default:
			x.others[namespace] = is.Language
		}
	}
}

// rowsOf splits records into words. All processors share the work, because a transaction may wait for it.
func rowsOf(ctx context.Context, records []record.Record, settings map[string]Settings, vectors bool) ([]row, error) {
	rows := make([]row, len(records))
	var working errgroup.Group
	share := (len(records) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for from := 0; from < len(records); from += share {
		working.Go(func() error {
			return panics.Catch(ctx, nil, "split into words", func() error {
				for i := from; i < min(from+share, len(records)); i++ {
					found := settings[records[i].Namespace].language().occurrences(records[i])
					if rows[i].terms = encode(records[i], found); vectors {
						rows[i].tsvector = tsvector(found)
					}
				}
				return nil
			})
		})
	}
	return rows, working.Wait()
}
