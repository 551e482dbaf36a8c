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
type split map[record.Key]row

// row is the words of a record, as databases keep them.
type row struct {
	of       record.Record
	language string
	terms    []byte
	tsvector string
}

// add splits the records that it does not have as they are, by the default settings unless their namespace has others. A transaction
// may wait for it, so all processors share the work.
func (s split) add(ctx context.Context, records []record.Record, settings map[string]Settings, vectors bool) error {
	language := func(r record.Record) string {
		return cmp.Or(settings[r.Namespace].Language, DefaultSettings().Language)
	}
	missing := slices.DeleteFunc(slices.Clone(records), func(r record.Record) bool {
		ready := s[r.Key()]
		return ready.language == language(r) && sameWords(ready.of, r)
	})
	rows := make([]row, len(missing))
	var working errgroup.Group
	working.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range missing {
		working.Go(func() error {
			return panics.Catch(ctx, nil, "split into words", func() error {
				made := row{of: r, language: language(r)}
				found := languages[made.language].occurrences(r)
				if made.terms = encode(r, found); vectors {
					made.tsvector = tsvector(found)
				}
				rows[i] = made
				return nil
			})
		})
	}
	err := working.Wait()
	for _, made := range rows {
		s[made.of.Key()] = made
	}
	return err
}

// sameWords reports whether two records have the same texts.
func sameWords(a, b record.Record) bool {
	return a.Content == b.Content && a.Title == b.Title && a.Category == b.Category && slices.Equal(a.Keywords, b.Keywords) && slices.Equal(a.Tags, b.Tags)
}
