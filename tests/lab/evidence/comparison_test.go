package evidence_test

import (
	"os"
	"strings"
	"testing"
)

// TestComparisonTable: every line of the table of quality in the comparison is one of the report's.
func TestComparisonTable(t *testing.T) {
	comparison, err := os.ReadFile("../../../docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile("../reports/eval/sqlite.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(comparison), "| set | configuration |")
	if !found {
		t.Fatal("the comparison has no table of quality")
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
