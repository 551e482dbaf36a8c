package importer

import (
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// Bounds of passages, in bytes. A passage is between leastPassage and mostPassage long; the last one before a heading may be up to
// leastPassage longer, so that no passage is a scrap.
const (
	leastPassage = 256
	mostPassage  = 2048
	// mostRepeated bounds the sentence that a passage repeats from the one before it. It is less than leastPassage.
	mostRepeated = 200
)

// passage is a part of a note's text that becomes a memory.
type passage struct {
	start, end int      // in bytes; end is exclusive
	from       int      // start, or the start of the sentence before it, which the passage repeats
	path       []string // headings that the passage is below, the outermost first
}

// holds reports whether a byte of the note belongs to the passage. What is in the front matter, at -1, belongs to the first.
func (p passage) holds(at int) bool { return p.start <= at && at < p.end || p.start == 0 && at < 0 }

// cutter divides a note into passages. The steps for each block (a heading, a paragraph, a list, a table) are:
//
//  1. Begin a passage at a heading, unless the current one is shorter than leastPassage.
//  2. Begin a passage at a block that would make the current one too long.
//  3. Cut a block that is too long by itself between sentences. Repeat the last sentence in the next passage.
//  4. End the passage after about every fourth block that is not a scrap, chosen by its text. So a change of a note moves only the
//     cuts near it, and the other passages stay as they are.
type cutter struct {
	text     string
	passages []passage
	current  passage
	headings []heading
}

type heading struct {
	level int
	text  string
}

// cut divides a text with such blocks. The passages follow one another from 0 to the end of the text.
func cut(text string, blocks []block) []passage {
	c := cutter{text: text}
	if len(text) <= mostPassage {
		return []passage{{end: len(text)}}
	}
	blocks = append([]block{{}}, blocks...) // white space before the first
	for i, b := range blocks {
		end := len(text)
		if i+1 < len(blocks) {
			end = blocks[i+1].start
		}
		section := len(text) // where the next heading begins
		if next := slices.IndexFunc(blocks[i+1:], func(b block) bool { return b.level > 0 }); next >= 0 {
			section = blocks[i+1+next].start
		}
		if b.level > 0 {
			c.head(b)
		} else if c.length(b.start) >= leastPassage && c.length(end) > mostPassage && section-b.start >= leastPassage {
			c.end(b.start, b.start)
		}
		if c.length(end) > mostPassage+leastPassage {
			c.sentences(b.start, end, section)
		}
		if b.level == 0 && c.length(end) >= leastPassage && section-end >= leastPassage && chosen(text[b.start:end]) {
			c.end(end, end)
		}
	}
	if c.current.end = len(text); c.current.end > c.current.start {
		c.passages = append(c.passages, c.current)
	}
	return c.passages
}

// length is that of the current passage if it ended there.
func (c *cutter) length(end int) int { return end - c.current.from }

// end ends the current passage, and begins one that repeats the text from some byte on.
func (c *cutter) end(at, from int) {
	c.current.end = at
	c.passages = append(c.passages, c.current)
	c.current = passage{start: at, from: from, path: c.above()}
}

// above returns the headings that the current block is below.
func (c *cutter) above() []string {
	return slice.Map(c.headings, func(h heading) string { return h.text })
}

// head takes a heading. What is short before it joins the passage before, if that is about the same, and the heading ends a
// subsection. Else it joins what follows: a passage with several short sections has the headings that all of them are below.
func (c *cutter) head(b block) {
	subsection := len(c.headings) > 0 && b.level < c.headings[len(c.headings)-1].level
	for len(c.headings) > 0 && c.headings[len(c.headings)-1].level >= b.level {
		c.headings = c.headings[:len(c.headings)-1]
	}
	if b.heading != "" {
		c.headings = append(c.headings, heading{b.level, b.heading})
	}
	path, last := c.above(), len(c.passages)-1
	switch {
	case c.length(b.start) >= leastPassage:
		c.end(b.start, b.start)
	case c.current.start == b.start:
	case subsection && last >= 0 && below(c.current.path, c.passages[last].path) && b.start-c.passages[last].from <= mostPassage+leastPassage:
		c.passages[last].end = b.start
		c.current = passage{start: b.start, from: b.start}
	case !below(path, c.current.path):
		common := 0
		for common < len(path) && path[common] == c.current.path[common] {
			common++
		}
		path = path[:common]
	}
	c.current.path = path
}

// below reports whether the first headings of a path are all those of another.
func below(path, other []string) bool {
	return len(path) >= len(other) && slices.Equal(path[:len(other)], other)
}

// sentences cuts a block where the current passage would get too long. A sentence that is too long by itself is cut anywhere.
func (c *cutter) sentences(start, end, section int) {
	rest, state, last := c.text[start:end], -1, start
	for at := start; rest != ""; {
		var sentence string
		sentence, rest, state = uniseg.FirstSentenceInString(rest, state)
		for c.length(at+len(sentence)) > mostPassage && section-at >= leastPassage {
			if c.length(at) >= leastPassage {
				from := at
				if at > start && at-last <= mostRepeated {
					from = last
				}
				c.end(at, from)
				continue
			}
			n := c.current.from + mostPassage - at
			for n < len(sentence) && !utf8.RuneStart(sentence[n]) {
				n++
			}
			c.end(at+n, at+n)
			at, sentence = at+n, sentence[n:]
		}
		last, at = at, at+len(sentence)
	}
}

// chosen chooses about one in four texts, always the same ones.
func chosen(text string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.TrimSpace(text)))
	return h.Sum32()>>30 == 0 // the lowest bits depend on the lowest bits of the text only
}
