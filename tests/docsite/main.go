// Command docsite writes the documentation as a folder of HTML pages that need no server and nothing from elsewhere.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/triskele/triskele/tests/docs"
)

//go:embed page.html
var layout string

func main() {
	out := flag.String("out", filepath.Join("out", "docs"), "`FOLDER` for the pages, which is written anew")
	flag.Parse()
	if err := write(".", *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Println(filepath.Join(*out, "README.html"))
}

// site is what is written where.
type site struct {
	repository, out string
	pages           map[string]*docs.Page
	layout          *template.Template
}

// group is a part of the list of pages beside each page; its links are named from the top.
type group struct {
	Title string
	Links []entry
}

type entry struct{ Text, To string }

// write makes a page of HTML of each page of the repository, and copies the files that they link to.
func write(repository, out string) error {
	read, err := docs.Read(repository)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	s := &site{repository: repository, out: out, pages: read, layout: template.Must(template.New("page").Parse(layout))}
	menu := s.menu()
	for _, p := range read {
		if err := s.page(p, menu); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// menu is what docs/README.md links to, by its headings.
func (s *site) menu() []group {
	contents := s.pages["docs/README.md"]
	groups := []group{{}}
	_ = ast.Walk(contents.Root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		last := &groups[len(groups)-1]
		switch node := node.(type) {
		case *ast.Heading:
			if entering && node.Level == 2 {
				groups = append(groups, group{Title: docs.Plain(node, contents.Source)})
			}
		case *ast.Link:
			if target := path.Join("docs", string(node.Destination)); entering && s.pages[target] != nil {
				last.Links = append(last.Links, entry{Text: docs.Plain(node, contents.Source), To: asHTML(target)})
			}
		}
		return ast.WalkContinue, nil
	})
	return groups
}

func (s *site) page(p *docs.Page, menu []group) error {
	if err := s.relink(p); err != nil {
		return err
	}
	var body, html bytes.Buffer
	if err := docs.Markdown.Renderer().Render(&body, p.Source, p.Root); err != nil {
		return err
	}
	if err := s.layout.Execute(&html, map[string]any{
		"Title": title(p), "Menu": menu, "Top": top(p), "Body": template.HTML(body.String()), "Folder": s.folder(p),
	}); err != nil {
		return err
	}
	return s.put(asHTML(p.Name), html.Bytes())
}

// relink gives headings the names by which links call them, and has links lead to what is in the folder: pages as HTML and copies of
// other files. What a link to a folder without a page of its own leads to is not there: its text stays.
func (s *site) relink(p *docs.Page) error {
	var folders []*ast.Link
	err := ast.Walk(p.Root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch node := node.(type) {
		case *ast.Heading:
			node.SetAttributeString("id", []byte(docs.Anchor(docs.Plain(node, p.Source))))
		case *ast.Image:
			_, err = s.copied(p, string(node.Destination))
		case *ast.Link:
			var to string
			to, err = s.copied(p, string(node.Destination))
			if node.Destination = []byte(to); to == "" {
				folders = append(folders, node)
			}
		}
		return ast.WalkContinue, err
	})
	for _, link := range folders {
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			parent.InsertBefore(parent, link, child)
		}
		parent.RemoveChild(parent, link)
	}
	return err
}

// copied sees to it that what a link leads to is there, and returns the link to it: empty for a folder without a page.
func (s *site) copied(p *docs.Page, link string) (string, error) {
	target, fragment, _ := strings.Cut(link, "#")
	if target == "" || strings.Contains(target, ":") {
		return link, nil
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	name := path.Join(path.Dir(p.Name), target)
	info, err := os.Stat(filepath.Join(s.repository, filepath.FromSlash(name)))
	switch {
	case err != nil:
		return "", err
	case info.IsDir() && s.pages[path.Join(name, "README.md")] != nil:
		return top(p) + path.Join(name, "README.html") + fragment, nil
	case info.IsDir():
		return "", nil
	case s.pages[name] != nil:
		return asHTML(target) + fragment, nil
	}
	content, err := os.ReadFile(filepath.Join(s.repository, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	return link, s.put(name, content)
}

// folder lists the pages beside a README that it does not link to, as a code host shows a folder.
func (s *site) folder(p *docs.Page) []entry {
	var entries []entry
	for name, other := range s.pages {
		if base := path.Base(name); path.Base(p.Name) == "README.md" && name != p.Name && path.Dir(name) == path.Dir(p.Name) && !slices.Contains(p.Links, base) {
			entries = append(entries, entry{Text: title(other), To: asHTML(base)})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.To, b.To) })
	return entries
}

func (s *site) put(name string, content []byte) error {
	file := filepath.Join(s.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// title is a page's first heading.
func title(p *docs.Page) string {
	for node := p.Root.FirstChild(); node != nil; node = node.NextSibling() {
		if heading, ok := node.(*ast.Heading); ok {
			return docs.Plain(heading, p.Source)
		}
	}
	return p.Name
}

// asHTML is the name of the page that is made of one.
func asHTML(name string) string {
	if plain, ok := strings.CutSuffix(name, ".md"); ok {
		return plain + ".html"
	}
	return name
}

// top leads from a page to the folder of all.
func top(p *docs.Page) string { return strings.Repeat("../", strings.Count(p.Name, "/")) }
