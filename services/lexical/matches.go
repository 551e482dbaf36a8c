package lexical

import (
	"context"
	"slices"
	"strings"

	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/sqldb"
)

// maxMatches bounds the matches in one field.
const maxMatches = 64

// Matches returns the places of a query's words in each record of a namespace.
func (*Index) Matches(ctx context.Context, db sqldb.DB, namespace, query string, records []record.Record) ([]record.Matches, error) {
	settings, err := readSettings(ctx, db.In(namespace), namespace)
	if err != nil {
		return nil, err
	}
	return settings.matches(ctx, query, records)
}

func (s Settings) matches(ctx context.Context, text string, records []record.Record) ([]record.Matches, error) {
	q := understand(text, s)
	sought := make(map[string]bool, len(q.terms))
	for _, t := range q.terms {
		sought[t.term] = true
	}
	for _, v := range q.variants {
		if len(v.form) == 1 {
			sought[v.form[0]] = true
		}
	}
	forms := q.longForms()
	misspelt, found := q.misspelt(), make([]record.Matches, len(records))
	for i, r := range records {
		if err := ctx.Err(); err != nil { // a long text takes milliseconds
			return nil, err
		}
		found[i] = record.Matches{Title: s.find(q, sought, forms, misspelt, r.Title), Content: s.find(q, sought, forms, misspelt, r.Content)}
	}
	return found, nil
}

// find returns the ranges of matching tokens in a text, in order. An identifier and its parts become one range.
func (s Settings) find(q query, sought map[string]bool, forms map[string][][]string, misspelt []string, text string) []record.Span {
	var spans []record.Span
	tokens := s.language().tokens(text)
	misspelt = slices.DeleteFunc(slices.Clone(misspelt), func(term string) bool {
		return slices.ContainsFunc(tokens, func(t token) bool { return t.term == term })
	})
	inForm := formed(tokens, forms)
	for _, t := range tokens {
		if !sought[t.term] && !inForm[t.position] && (q.prefix == "" || !strings.HasPrefix(t.term, q.prefix)) && !near(t.term, misspelt) {
			continue
		}
		if last := len(spans) - 1; last >= 0 && t.start < spans[last].End {
			spans[last].End = max(spans[last].End, t.end)
			continue
		}
		if len(spans) == maxMatches {
			break
		}
		spans = append(spans, record.Span{Start: t.start, End: t.end})
	}
	return spans
}
