package sqlite

import (
	"regexp"
	"strings"
)

// Now is the name of the argument that stands for now() in a translated statement.
const Now = "now"

var (
	constructs = strings.NewReplacer(
		"memory.", "", "lexical.", "lexical_", "dense.", "dense_", "graph.", "graph_", // schemas
		" FOR UPDATE SKIP LOCKED", "", " FOR UPDATE", "", // there is one writer at a time
		` COLLATE "C"`, "", "now()", ":"+Now,
	)
	idLists   = regexp.MustCompile(`= ANY\((\$\d+)::uuid\[\]\)`)
	textLists = regexp.MustCompile(`= ANY\((\$\d+)::text\[\]\)`)
)

// translate returns a statement of PostgreSQL's dialect in that of SQLite, which also knows placeholders like $1. A list is an
// argument of JSON. Statements of SQLite's own dialect stay as they are.
func translate(statement string) string {
	statement = constructs.Replace(statement)
	statement = idLists.ReplaceAllString(statement, `IN (SELECT unhex(value, '-') FROM json_each(${1}))`)
	return textLists.ReplaceAllString(statement, `IN (SELECT value FROM json_each(${1}))`)
}
