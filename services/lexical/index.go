package lexical

import (
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/store/record"
)

// field is a part of a memory, by PostgreSQL's weight label. In the score it weighs, in tenths, A 10, B 4, C 2 and D 1: the
// migrations and the search on SQLite say so. BM25F adds up occurrences by these weights: S. Robertson, H. Zaragoza and
// M. Taylor, "Simple BM25 extension to multiple weighted fields", CIKM 2004.
type field byte

const (
	fieldContent  field = 'A' // and title
	fieldKeywords field = 'B'
	fieldTags     field = 'C'
	// category, and stop words wherever they are: found when there is nothing else, they hardly count in a memory's length
	fieldLeast field = 'D'
)

// fields returns the indexed texts of a memory.
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
			if weight != fieldLeast { // D is what none means
				b.WriteByte(byte(weight))
			}
			b.WriteByte(' ')
		}
		if len(tokens) > 0 {
			offset += tokens[len(tokens)-1].position + 2 // a gap, so that no phrase spans two fields
		}
	}
	return b.String()
}

// lexemeQuoting escapes what ends or escapes a quoted lexeme.
var lexemeQuoting = strings.NewReplacer(`'`, `''`, `\`, `\\`)

// writeLexeme writes a lexeme as tsvector and tsquery read it, whatever characters it has.
func writeLexeme(b *strings.Builder, lexeme string) {
	b.WriteByte('\'')
	b.WriteString(lexemeQuoting.Replace(lexeme))
	b.WriteByte('\'')
}
