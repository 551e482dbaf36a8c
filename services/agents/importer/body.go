package importer

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.abhg.dev/goldmark/wikilink"
)

// body has the structure of a note's text.
type body struct {
	heading string // the first heading of level 1
	links   []noteLink
	cuts    []int // the bytes at which headings begin
}

// noteLink is a link in a note.
type noteLink struct {
	at       int // first byte of the block that has the link; -1 in the front matter
	relation string
	target   string // without label and fragment
	wiki     bool   // [[target]] instead of [label](target.md)
	embed    bool   // ![[target]]
}

// parseBody parses Markdown: CommonMark with wikilinks. It ignores links in code.
func parseBody(source string) body {
	markdown := goldmark.New(goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(&wikilink.Parser{}, 199)))) // before links
	raw := []byte(source)
	root := markdown.Parser().Parse(text.NewReader(raw))
	var b body
	at := 0 // first byte of the current block
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
			at = node.Lines().At(0).Start
		}
		switch n := node.(type) {
		case *ast.Heading:
			if n.Lines().Len() == 0 {
				break
			}
			if n.Parent() == root {
				b.cuts = append(b.cuts, bytes.LastIndexByte(raw[:at], '\n')+1)
			}
			if n.Level == 1 && b.heading == "" {
				b.heading = strings.TrimSpace(plain(n, raw))
			}
		case *wikilink.Node:
			target, _, _ := strings.Cut(string(n.Target), "#")
			target = strings.TrimSpace(strings.TrimSuffix(target, `\`)) // in a table, a backslash escapes the label's bar
			if target != "" {
				b.links = append(b.links, noteLink{at, linksTo, target, true, n.Embed})
			}
		case *ast.Link:
			b.links = append(b.links, noteLink{at: at, relation: linksTo, target: string(n.Destination)})
		}
		return ast.WalkContinue, nil
	})
	return b
}

// plain returns the text of a node without its markup.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// section is a part of a text, in bytes. end is exclusive.
type section struct{ start, end int }

// holds reports whether a link belongs to the section. Links of the front matter belong to the first section.
func (s section) holds(l noteLink) bool {
	return s.start <= l.at && l.at < s.end || s.start == 0 && l.at < 0 || s.start == s.end
}

// split divides a text into sections of at most so many bytes. It cuts at the last of the cuts that fits, or else after the
// last blank line, line or character that fits. All sections but the last have at least a quarter of the maximum, if a quarter
// is more than a character.
func split(text string, cuts []int, most int) []section {
	var out []section
	start := 0
	for len(text)-start > most {
		least, end := start+most/4, 0
		for _, cut := range cuts {
			if cut >= least && cut <= start+most {
				end = cut
			}
		}
		for _, mark := range []string{"\n\n", "\n"} {
			if at := strings.LastIndex(text[start:start+most], mark); end == 0 && start+at+len(mark) >= least && at >= 0 {
				end = start + at + len(mark)
			}
		}
		if end == 0 {
			for end = start + most; !utf8.RuneStart(text[end]); end-- {
			}
		}
		out = append(out, section{start, end})
		start = end
	}
	return append(out, section{start, len(text)})
}
