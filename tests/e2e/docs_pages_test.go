package e2e_test

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/tests/docs"
)

// repository is the folder that pages are named from.
var repository = filepath.Join("..", "..")

func readPages(t *testing.T) map[string]*docs.Page {
	t.Helper()
	read, err := docs.Read(repository)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestDocsLeadSomewhere: what a page links to is there, headings included, and every page can be reached from the README.
func TestDocsLeadSomewhere(t *testing.T) {
	t.Parallel()
	read := readPages(t)
	reached := map[string]bool{"README.md": true}
	for queue := []string{"README.md", "CONTRIBUTING.md"}; len(queue) > 0; queue = queue[1:] {
		for _, link := range read[queue[0]].Links {
			target, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", queue[0], err)
			}
			if err != nil || target.Scheme != "" {
				continue
			}
			name := queue[0]
			if target.Path != "" {
				name = path.Join(path.Dir(name), target.Path)
			}
			info, err := os.Stat(filepath.Join(repository, filepath.FromSlash(name)))
			if err != nil {
				t.Errorf("%s leads to %s, which is not there", queue[0], link)
				continue
			}
			if to := read[name]; target.Fragment != "" && strings.HasSuffix(name, ".md") && (to == nil || !to.Anchors[target.Fragment]) {
				t.Errorf("%s leads to %s, which has no such heading", queue[0], link)
			}
			for other := range read { // a folder shows what is in it
				if (other == name || info.IsDir() && path.Dir(other) == name) && !reached[other] {
					reached[other] = true
					queue = append(queue, other)
				}
			}
		}
	}
	for name := range read {
		if !reached[name] {
			t.Errorf("no page leads to %s", name)
		}
	}
}
