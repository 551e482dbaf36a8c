package lexical

import (
	"strconv"
	"strings"
)

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
