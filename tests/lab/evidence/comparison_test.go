package evidence_test

import (
	"os"
	"strings"
	"testing"
)

// TestComparisonTable: every line of the table of quality in the comparison is one of the reports'.
func TestComparisonTable(t *testing.T) {
	comparison, err := os.ReadFile("../../../docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	var reports strings.Builder
	for _, name := range []string{"fusion", "graph"} {
		report, err := os.ReadFile("../../../docs/evidence/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		reports.Write(report)
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
		if !strings.Contains(reports.String(), row+"\n") {
			t.Errorf("in no report: %s", row)
		}
	}
}
