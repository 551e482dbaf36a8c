package e2e_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// repository is the folder that pages are named from.
var repository = filepath.Join("..", "..")

// block is a block of code on a page.
type block struct {
	line     int    // of its first line
	language string // as its fence says; empty without
	indented bool   // without a fence
	text     string
}

// page is a file of the documentation, as a code host shows it.
type page struct {
	name    string // from the top of the repository, with slashes
	blocks  []block
	spans   []string // code within a line
	links   []string // where it leads, images included
	anchors map[string]bool
}

// readPages parses README.md, CONTRIBUTING.md and everything under docs.
func readPages(t *testing.T) map[string]*page {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(file string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			name, _ := filepath.Rel(repository, file)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]*page{}
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = parsePage(name, source)
	}
	return pages
}

func parsePage(name string, source []byte) *page {
	p := &page{name: name, anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.anchors[p.anchor(plain(node, source))] = true
		case *ast.FencedCodeBlock:
			p.blocks = append(p.blocks, codeBlock(node, string(node.Language(source)), false, source))
		case *ast.CodeBlock:
			p.blocks = append(p.blocks, codeBlock(node, "", true, source))
		case *ast.CodeSpan:
			p.spans = append(p.spans, plain(node, source))
		case *ast.Link:
			p.links = append(p.links, string(node.Destination))
		case *ast.Image:
			p.links = append(p.links, string(node.Destination))
		}
		return ast.WalkContinue, nil
	})
	return p
}

func codeBlock(node ast.Node, language string, indented bool, source []byte) block {
	b := block{language: language, indented: indented, text: string(node.Lines().Value(source))}
	if node.Lines().Len() > 0 {
		b.line = 1 + strings.Count(string(source[:node.Lines().At(0).Start]), "\n")
	}
	return b
}

// plain is the text of a node without its marks.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if leaf, ok := node.(*ast.Text); ok && entering {
			b.Write(leaf.Value(source))
			if leaf.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchor is what code hosts make of a heading: lower case, without punctuation, with hyphens for spaces. They number those that
// occur twice, which is better avoided than followed.
func (p *page) anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestDocsLeadSomewhere: what a page links to is there, headings included, and every page can be reached from the README.
func TestDocsLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	reached := map[string]bool{"README.md": true}
	for queue := []string{"README.md", "CONTRIBUTING.md"}; len(queue) > 0; queue = queue[1:] {
		for _, link := range pages[queue[0]].links {
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
			if to := pages[name]; target.Fragment != "" && strings.HasSuffix(name, ".md") && (to == nil || !to.anchors[target.Fragment]) {
				t.Errorf("%s leads to %s, which has no such heading", queue[0], link)
			}
			for other := range pages { // a folder shows what is in it
				if (other == name || info.IsDir() && path.Dir(other) == name) && !reached[other] {
					reached[other] = true
					queue = append(queue, other)
				}
			}
		}
	}
	for name := range pages {
		if !reached[name] {
			t.Errorf("no page leads to %s", name)
		}
	}
}
