package evidence_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeTable: every line of the README's table of quality is one of the report's.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile("../../docs/evidence/fusion.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "| set | configuration |")
	if !found {
		t.Fatal("the README has no table of quality")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 10 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(string(report), row+"\n") {
			t.Errorf("not in the report: %s", row)
		}
	}
}
