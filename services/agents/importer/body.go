package importer

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.abhg.dev/goldmark/wikilink"
)

type body struct {
	heading string // the first heading of level 1
	links   []noteLink
	tags    []noteTag
	blocks  []block
}

// block is a part of a note that belongs together: a heading, a paragraph, a list, a table.
type block struct {
	start   int    // the first byte of its first line
	level   int    // of a heading; else 0
	heading string // its text without markup
}

type noteTag struct {
	at   int // its first byte
	name string
}

type noteLink struct {
	at       int // first byte of the block that has the link; -1 in the front matter
	relation string
	target   string // without label and fragment
	wiki     bool   // [[target]] instead of [label](target.md)
	embed    bool   // ![[target]]
}

// parseBody parses Markdown: CommonMark with wikilinks and tags. It ignores links and tags in code.
func parseBody(source string) body {
	markdown := goldmark.New(goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(&wikilink.Parser{}, 199)))) // before links
	raw := []byte(source)
	root := markdown.Parser().Parse(text.NewReader(raw))
	var b body
	at := 0 // first byte of the current block's text
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Parent() == root {
			start := bytes.LastIndexByte(raw[:min(max(node.Pos(), 0), len(raw))], '\n') + 1
			if n := len(b.blocks); n == 0 || b.blocks[n-1].start < start {
				b.blocks = append(b.blocks, block{start: start})
			}
		}
		if node.Type() == ast.TypeBlock && node.Lines() != nil && node.Lines().Len() > 0 {
			at = node.Lines().At(0).Start
		}
		switch n := node.(type) {
		case *ast.Heading:
			title := strings.TrimSpace(plain(n, raw))
			if n.Parent() == root {
				last := &b.blocks[len(b.blocks)-1]
				last.level, last.heading = n.Level, title
			}
			if n.Level == 1 && b.heading == "" {
				b.heading = title
			}
		case *ast.CodeSpan:
			return ast.WalkSkipChildren, nil
		case *wikilink.Node:
			target, _, _ := strings.Cut(string(n.Target), "#")
			target = strings.TrimSpace(strings.TrimSuffix(target, `\`)) // in a table, a backslash escapes the label's bar
			if target != "" {
				b.links = append(b.links, noteLink{at, relation(n, raw), target, true, n.Embed})
			}
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			b.links = append(b.links, noteLink{at: at, relation: linksTo, target: string(n.Destination)})
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			b.tags = append(b.tags, tags(n, raw)...)
		}
		return ast.WalkContinue, nil
	})
	return b
}

var (
	relationBefore = regexp.MustCompile(`(?i)^[a-z]+(?:[ _-][a-z]+){0,2}\s+$`)
	contextBehind  = regexp.MustCompile(`^\s*(\(.*)?$`)
)

// relation returns what an item of a list says of its only link, as in "- caused by [[X]] (see the log)": "caused_by".
func relation(link *wikilink.Node, raw []byte) string {
	if link.Parent().Parent() == nil || link.Parent().Parent().Kind() != ast.KindListItem {
		return linksTo
	}
	var before text.Segment // of several texts: the parser divides a line wherever markup might begin
	for node := link.PreviousSibling(); node != nil; node = node.PreviousSibling() {
		t, ok := node.(*ast.Text)
		if !ok {
			return linksTo
		}
		before = text.NewSegment(t.Segment.Start, max(before.Stop, t.Segment.Stop))
	}
	said := before.Value(raw)
	if next := link.NextSibling(); next != nil {
		behind, ok := next.(*ast.Text)
		if !ok || !contextBehind.Match(behind.Value(raw)) {
			return linksTo
		}
	}
	if !relationBefore.Match(said) {
		return linksTo
	}
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(string(said))))
}

// A tag has at least one character that is no digit: #7 is a number.
var tagText = regexp.MustCompile(`(?:^|[\s(])#([\p{L}\p{N}_/-]*[\p{L}_][\p{L}\p{N}_/-]*)`)

// tags returns the tags that begin in a text. The parser divides a line into several texts wherever markup might begin.
func tags(first *ast.Text, raw []byte) (found []noteTag) {
	segment := first.Segment
	if before, ok := first.PreviousSibling().(*ast.Text); ok && before.Segment.Stop == segment.Start {
		return nil // done with the text before
	}
	for next, ok := first.NextSibling().(*ast.Text); ok && next.Segment.Start == segment.Stop; next, ok = next.NextSibling().(*ast.Text) {
		segment.Stop = next.Segment.Stop
	}
	text := segment.Value(raw)
	if bytes.IndexByte(text, '#') < 0 {
		return nil
	}
	for _, match := range tagText.FindAllSubmatchIndex(text, -1) {
		if match[0] == match[2]-1 && segment.Start > 0 && !strings.ContainsRune(" \t\n(", rune(raw[segment.Start-1])) {
			continue // the middle of a word
		}
		found = append(found, noteTag{segment.Start + match[2], strings.Trim(string(text[match[2]:match[3]]), "/-")})
	}
	return found
}

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
