package lexical

import (
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/store/record"
)

// field is a part of a memory, named by PostgreSQL's weight labels. BM25F adds up the occurrences of a term by the weights of
// their fields: A 1, B 0.4, C 0.2 and D 0.1. The migrations and the search on SQLite have the same weights. S. Robertson,
// H. Zaragoza and M. Taylor, "Simple BM25 extension to multiple weighted fields", CIKM 2004.
type field byte

const (
	fieldContent  field = 'A' // and title
	fieldKeywords field = 'B'
	fieldTags     field = 'C'
	// category, and stop words of all fields: they can be found, but hardly add to a memory's length
	fieldLeast field = 'D'
)

// fields returns the indexed texts of a memory in the order A, B, C, D.
func fields(r record.Record) [4]struct {
	field field
	text  string
} {
	return [4]struct {
		field field
		text  string
	}{
		{fieldContent, r.Content + "\n" + r.Title},
		{fieldKeywords, strings.Join(r.Keywords, "\n")},
		{fieldTags, strings.Join(r.Tags, "\n")},
		{fieldLeast, r.Category},
	}
}

// tsvector returns a memory's terms in the text form of PostgreSQL's tsvector, with positions and weights.
func (l language) tsvector(r record.Record) string {
	var b strings.Builder
	offset := 1
	for _, f := range fields(r) {
		tokens := l.tokens(f.text)
		for _, t := range tokens {
			weight := f.field
			if t.stop {
				weight = fieldLeast
			}
			writeLexeme(&b, t.term)
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(offset + t.position))
			if weight != fieldLeast { // no label means D
				b.WriteByte(byte(weight))
			}
			b.WriteByte(' ')
		}
		if len(tokens) > 0 {
			offset += tokens[len(tokens)-1].position + 2 // a gap of one position, so that no phrase spans two fields
		}
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
