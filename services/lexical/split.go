package lexical

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/services/store/record"
)

// split has the rows of records that are split into words.
type split struct {
	by   *Index
	rows map[record.Key]row
}

// row is the words of a record, as databases keep them.
type row struct {
	of       record.Record
	language string
	terms    []byte
	tsvector string
}

// split splits records into words, in the languages that it guesses. Records that fail are left to the transaction.
func (x *Index) split(ctx context.Context, records []record.Record) split {
	ready, guessed := split{x, make(map[record.Key]row, len(records))}, map[string]Settings{}
	if last := x.last.Load(); last != nil {
		guessed = *last
	}
	rows, _ := rowsOf(ctx, records, guessed, x.Vectors)
	for _, row := range rows {
		ready.rows[row.of.Key()] = row
	}
	return ready
}

// in returns the rows of records in the languages that the settings have.
func (s split) in(ctx context.Context, records []record.Record, settings map[string]Settings) ([]row, error) {
	s.by.last.Store(&settings)
	rows := make([]row, len(records))
	var places []int // of records that are not ready
	var missing []record.Record
	for i, r := range records {
		rows[i] = s.rows[r.Key()]
		if !sameWords(rows[i].of, r) || rows[i].language != settings[r.Namespace].Language {
			places, missing = append(places, i), append(missing, r)
		}
	}
	made, err := rowsOf(ctx, missing, settings, s.by.Vectors)
	for i, row := range made {
		rows[places[i]] = row
	}
	return rows, err
}

// sameWords reports whether two records have the same texts.
func sameWords(a, b record.Record) bool {
	return a.Content == b.Content && a.Title == b.Title && a.Category == b.Category && slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags)
}

// rowsOf splits records into words, by the default settings unless their namespace has others. A
// transaction may wait for it, so all processors share the work.
func rowsOf(ctx context.Context, records []record.Record, settings map[string]Settings, vectors bool) ([]row, error) {
	rows := make([]row, len(records))
	var working errgroup.Group
	working.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range records {
		working.Go(func() error {
			return panics.Catch(ctx, nil, "split into words", func() error {
				name := cmp.Or(settings[r.Namespace].Language, DefaultSettings().Language)
				found := languages[name].occurrences(r)
				if rows[i] = (row{of: r, language: name, terms: encode(r, found)}); vectors {
					rows[i].tsvector = tsvector(found)
				}
				return nil
			})
		})
	}
	return rows, working.Wait()
}
