package main

import (
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSiteIsWhole: every link and picture of the site leads to something within it, names of headings included.
func TestSiteIsWhole(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := write(filepath.Join("..", ".."), out); err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	links := 0
	err := filepath.WalkDir(out, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".html") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, match := range reference.FindAllStringSubmatch(string(text), -1) {
			target, fragment, _ := strings.Cut(html.UnescapeString(match[1]), "#")
			if strings.Contains(target, ":") {
				continue
			}
			links++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(target))
			}
			content, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s leads to %s: %v", filepath.Base(file), match[1], err)
			} else if fragment != "" && !strings.Contains(string(content), `id="`+fragment+`"`) {
				t.Errorf("%s leads to %s, which has no such heading", filepath.Base(file), match[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 1000 {
		t.Errorf("only %d links were found", links)
	}
}
