package telemetry

import (
	"regexp"
	"strings"
)

// table finds the first table that a statement names.
var table = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|JOIN|TABLE) +([a-z_]+(?:\.[a-z_]+)?)`)

// Summary says of an SQL statement what it does and to which table first, "SELECT memory.memories", and nothing else of it:
// OpenTelemetry's db.query.summary.
func Summary(statement string) string {
	operation := "SQL"
	for word := range strings.FieldsSeq(statement) {
		operation = strings.ToUpper(word)
		break
	}
	if found := table.FindStringSubmatch(statement); found != nil {
		return operation + " " + found[1]
	}
	return operation
}
