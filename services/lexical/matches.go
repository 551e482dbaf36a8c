package lexical

import (
	"context"
	"slices"

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
	w := wanted{make(map[string]bool, len(q.terms)), q.prefix, q.misspelt()}
	for _, t := range q.terms {
		w.terms[t.term] = true
	}
	for _, v := range q.variants {
		if len(v.form) == 1 {
			w.terms[v.form[0]] = true
		}
	}
	forms, found := q.longForms(), make([]record.Matches, len(records))
	for i, r := range records {
		if err := ctx.Err(); err != nil { // a long text takes milliseconds
			return nil, err
		}
		found[i] = record.Matches{Title: s.find(w, forms, r.Title), Content: s.find(w, forms, r.Content)}
	}
	return found, nil
}

// find returns the ranges of matching tokens in a text, in order. An identifier and its parts become one range.
func (s Settings) find(w wanted, forms map[string][][]string, text string) []record.Span {
	var spans []record.Span
	tokens := s.language().tokens(text)
	w.misspelt = slices.DeleteFunc(slices.Clone(w.misspelt), func(term string) bool {
		return slices.ContainsFunc(tokens, func(t token) bool { return t.term == term })
	})
	inForm := formed(tokens, forms)
	for _, t := range tokens {
		if !w.has(t.term) && !inForm[t.position] {
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
