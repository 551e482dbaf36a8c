package docs_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/triskele/triskele/"

// rooms returns the row of CONTRIBUTING's table in which each folder is, from 1.
func rooms(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Where things are")
	rows := map[string]int{}
	for i, line := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
		parent := ""
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line[1], -1) {
			folder := name[1]
			if strings.Contains(folder, "/") {
				parent = path.Dir(folder)
			} else if parent != "" {
				folder = path.Join(parent, folder)
			}
			rows[folder] = i + 1
		}
	}
	return rows
}

// rowOf returns the row of the nearest room above a package, 0 if there is none.
func rowOf(rows map[string]int, pkg string) int {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if row := rows[dir]; row > 0 {
			return row
		}
	}
	return 0
}

// TestNoImportRunsBackUp compares the imports of all packages with the order of CONTRIBUTING's table.
func TestNoImportRunsBackUp(t *testing.T) {
	rows := rooms(t)
	if len(rows) < 15 {
		t.Fatalf("got %d rooms, want those of the table: %v", len(rows), rows)
	}
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"proto/...", module+"fuser/...", module+"services/...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		importer := strings.TrimPrefix(packages[0], module)
		row := rowOf(rows, importer)
		if row == 0 {
			t.Errorf("%s is in no room of CONTRIBUTING's table", importer)
		}
		for _, imported := range packages[1:] {
			below, own := strings.CutPrefix(imported, module)
			if own && rowOf(rows, below) < row {
				t.Errorf("%s imports %s, which is in a higher row", importer, below)
			}
		}
	}
}
