package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var repository = filepath.Join("..", "..")

// records returns the names of the files that hold a decision.
func records(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "adr", "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

// TestDecisionsAreIndexed checks that the index lists every decision once, in order, and that each record states its number and status.
func TestDecisionsAreIndexed(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile(filepath.Join(repository, "docs", "adr", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[\d+\]\((\d{4}-[a-z0-9-]+\.md)\)`).FindAllStringSubmatch(string(index), -1) {
		listed = append(listed, row[1])
	}
	if want := records(t); !slices.Equal(listed, want) {
		t.Errorf("the index lists %q, want %q", listed, want)
	}
	for _, name := range records(t) {
		text, err := os.ReadFile(filepath.Join(repository, "docs", "adr", name))
		if err != nil {
			t.Fatal(err)
		}
		begin := "# " + strings.TrimLeft(name[:4], "0") + ". "
		if !strings.HasPrefix(string(text), begin) {
			t.Errorf("%s begins with %.20q, want %q", name, text, begin)
		}
		if !regexp.MustCompile(`(?m)^\*\*Status\*\*: (accepted|retired|replaced by)`).Match(text) {
			t.Errorf("%s has no line **Status** that says accepted, retired or replaced by", name)
		}
	}
}

// TestReferencesToDecisionsHold checks that a decision named in code, schemas, settings or scripts exists. Links between pages have a
// test of their own.
func TestReferencesToDecisionsHold(t *testing.T) {
	t.Parallel()
	reference := regexp.MustCompile(`docs/adr/(\d{4}[a-z0-9-]*(?:\.md)?)`)
	kinds := []string{".go", ".sql", ".proto", ".yaml", ".yml", ".sh", ".json"}
	have, found := records(t), 0
	err := filepath.WalkDir(repository, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".cache", "bin", "out", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(kinds, filepath.Ext(file)) && entry.Name() != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, match := range reference.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(have, match[1]) {
				t.Errorf("%s refers to docs/adr/%s, which does not exist", file, match[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("found no reference to a decision, want some")
	}
}
