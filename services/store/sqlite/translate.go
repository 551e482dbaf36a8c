package sqlite

import (
	"fmt"
	"regexp"
	"strings"
)

// Names of arguments in translated statements: Now stands for now(), and Bytes has the values of bytes of all rows that are unnested.
const Now, Bytes = "now", "bytes"

var (
	ownSchema = regexp.MustCompile(`\bmemory\.`)
	schemas   = regexp.MustCompile(`\b(lexical|dense|graph)\.`)

	constructs = strings.NewReplacer(
		` COLLATE "C"`, "", "now()", ":"+Now, "greatest(", "max(", "least(", "min(",
	)
	binary  = regexp.MustCompile(`(?:bytea|halfvec)\[\]$`)
	locks   = regexp.MustCompile(` FOR (?:(?:NO )?KEY )?(?:SHARE|UPDATE)(?: OF \w+)?(?: SKIP LOCKED)?`) // there is one writer at a time
	idLists = regexp.MustCompile(`= ANY\((\$\d+)::uuid\[\]\)`)
	lists   = regexp.MustCompile(`= ANY\((\$\d+)::(?:text|bigint)\[\]\)`)
	times   = regexp.MustCompile(`\(extract\(epoch FROM ([\w.]+)\) \* 1000000\)::bigint`) // stored so
	texts   = regexp.MustCompile(`to_json\(([\w.]+)\)::text`)
	rows    = regexp.MustCompile(`unnest\((\$\d+)::([^)]+)\)\s+AS (\w+) \(([\w, ]+)\)`)
)

// translate returns a statement of PostgreSQL's dialect in that of SQLite, which also knows placeholders like $1. A list is an
// argument of JSON, and so are rows that are unnested. Statements of SQLite's own dialect stay as they are.
func translate(statement string) string {
	statement = schemas.ReplaceAllString(ownSchema.ReplaceAllString(statement, ""), "${1}_")
	statement = locks.ReplaceAllString(constructs.Replace(statement), "")
	statement = idLists.ReplaceAllString(statement, `IN (SELECT unhex(value, '-') FROM json_each(${1}))`)
	statement = lists.ReplaceAllString(statement, `IN (SELECT value FROM json_each(${1}))`)
	statement = texts.ReplaceAllString(times.ReplaceAllString(statement, "${1}"), "${1}")
	return rows.ReplaceAllStringFunc(statement, func(unnested string) string {
		parts := rows.FindStringSubmatch(unnested)
		types, columns := strings.Split(parts[2], ","), strings.Split(parts[4], ", ")
		for i, name := range columns {
			column := fmt.Sprintf("value ->> %d", i)
			switch {
			case strings.HasSuffix(types[i], "uuid[]"):
				column = "unhex(" + column + ", '-')"
			case binary.MatchString(types[i]): // JSON has no bytes, but their place
				column = fmt.Sprintf("substr(:"+Bytes+", value ->> '$[%[1]d][0]', value ->> '$[%[1]d][1]')", i)
			}
			columns[i] = column + " AS " + name
		}
		return fmt.Sprintf("(SELECT %s FROM json_each(%s)) AS %s", strings.Join(columns, ", "), parts[1], parts[3])
	})
}
