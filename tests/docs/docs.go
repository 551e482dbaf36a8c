// Package docs reads the documentation as code hosts show it: which blocks of code are on a page, where its links lead, and what its
// headings are called in links.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// Markdown is the dialect of the documentation.
var Markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))

// named is a place that a page names in HTML.
var named = regexp.MustCompile(`<a id="([^"]+)">`)

// Block is a block of code.
type Block struct {
	Line     int    // of the page, at which it begins, from 1
	Language string // as its fence says; empty without
	Text     string
}

// Page is a file of the documentation.
type Page struct {
	Name    string // from the top of the repository, with slashes
	Source  []byte
	Root    ast.Node // what Markdown made of the source
	Blocks  []Block
	Spans   []string        // code within a line
	Links   []string        // where it leads, images included
	Anchors map[string]bool // what its headings, and places named in HTML, are called in links
}

// Read parses README.md, CONTRIBUTING.md and everything under docs, by name. repository is its folder.
func Read(repository string) (map[string]*Page, error) {
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(file string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			name, _ := filepath.Rel(repository, file)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	read := map[string]*Page{}
	for _, name := range names {
		source, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		read[name] = parse(name, source)
	}
	return read, nil
}

func parse(name string, source []byte) *Page {
	p := &Page{Name: name, Source: source, Root: Markdown.Parser().Parse(text.NewReader(source)), Anchors: map[string]bool{}}
	for _, match := range named.FindAllSubmatch(source, -1) {
		p.Anchors[string(match[1])] = true
	}
	_ = ast.Walk(p.Root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.Anchors[Anchor(Plain(node, source))] = true
		case *ast.FencedCodeBlock:
			p.Blocks = append(p.Blocks, code(node, string(node.Language(source)), source))
		case *ast.CodeBlock:
			p.Blocks = append(p.Blocks, code(node, "", source))
		case *ast.CodeSpan:
			p.Spans = append(p.Spans, Plain(node, source))
		case *ast.Link:
			p.Links = append(p.Links, string(node.Destination))
		case *ast.Image:
			p.Links = append(p.Links, string(node.Destination))
		}
		return ast.WalkContinue, nil
	})
	return p
}

func code(node ast.Node, language string, source []byte) Block {
	b := Block{Language: language, Text: string(node.Lines().Value(source))}
	if node.Lines().Len() > 0 {
		b.Line = 1 + strings.Count(string(source[:node.Lines().At(0).Start]), "\n")
	}
	return b
}

// Plain is the text of a node without its marks.
func Plain(node ast.Node, source []byte) string {
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

// Anchor is what code hosts make of a heading: lower case, without punctuation, with hyphens for spaces. They number those that
// occur twice, which is better avoided than followed.
func Anchor(heading string) string {
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
