package telemetry

import "strings"

var beforeTable = map[string]bool{"FROM": true, "INTO": true, "UPDATE": true, "JOIN": true, "TABLE": true}

// Summary returns an SQL statement's operation and first table, "SELECT memory.memories": OpenTelemetry's
// db.query.summary. It reads no further than that table.
func Summary(statement string) string {
	operation, last := "", ""
	for word := range strings.FieldsSeq(statement) {
		if operation == "" {
			operation = strings.ToUpper(word)
		} else if name := leadingName(word); last != "" && name != "" && beforeTable[last] {
			return operation + " " + name
		}
		if last = ""; len(word) <= len("UPDATE") {
			last = strings.ToUpper(word)
		}
	}
	if operation == "" {
		return "SQL"
	}
	return operation
}

// leadingName returns the name, with its schema, that a word begins with, or "".
func leadingName(word string) string {
	end := strings.IndexFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && r != '.' })
	if end < 0 {
		return word
	}
	return word[:end]
}
