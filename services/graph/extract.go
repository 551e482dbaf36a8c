package graph

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/triskele/triskele/services/store/record"
)

const (
	// maxDocumentWords bounds the words of a text read for names.
	maxDocumentWords = 2000
	// maxResolvedWords bounds a phrase that is looked up among the known concepts.
	maxResolvedWords = 5
	// maxRunWords bounds a name in capitalised words, without connectors. Longer runs are headlines.
	maxRunWords = 5
	// maxNameBytes bounds a name. Longer strings are data.
	maxNameBytes = 256
)

// Salience of a concept in a memory, by the place of the mention.
const (
	salienceTitle    = 1.0
	salienceTag      = 0.8
	salienceKeyword  = 0.8
	salienceName     = 0.6
	salienceFact     = 0.6
	salienceResolved = 0.5
	saliencePhrase   = 0.3
)

// Kind says where a concept was first found.
type Kind string

// The kinds of concept.
const (
	KindTitle   Kind = "title"
	KindTag     Kind = "tag"
	KindKeyword Kind = "keyword"
	KindName    Kind = "name"
)

// Concept is a topic of a memory.
type Concept struct {
	Key      string // normal form of Name
	Name     string
	Kind     Kind
	Salience float64 // 0 to 1
	AliasOf  string  // the Key of the concept it is an alias of, or ""
}

// Extract returns at most 32 concepts of a memory, most salient first, then in the order of the text. They come from a short
// title, tags, keywords, and names in the text: capitalised runs, identifiers (ERR_CONN_RESET, heron-db-2) and speakers
// before a colon. Scripts without capitals have only identifiers. The head of a title (Accel of "Accel - Venture Capital",
// Heat of "Heat (1995)") is an alias of the title. An abbreviation in brackets is an alias of its long form.
func Extract(r record.Record) []Concept {
	var out []Concept
	seen := map[string]bool{}
	add := func(name string, kind Kind, salience float64, aliasOf string) {
		if len(name) > maxNameBytes {
			return
		}
		ws := words(name, maxNameWords+1)
		if len(ws) == 0 || len(ws) > maxNameWords {
			return
		}
		if k := key(ws); !seen[k] {
			seen[k] = true
			out = append(out, Concept{k, strings.Join(strings.Fields(name), " "), kind, salience, aliasOf})
		}
	}
	add(r.Title, KindTitle, salienceTitle, "")
	if head := titleHead(r.Title); head != "" {
		full := key(words(r.Title, maxNameWords+1))
		if !seen[full] {
			full = "" // too long to be a name
		}
		add(head, KindTitle, salienceTitle, full)
	}
	for _, tag := range r.Tags {
		add(tag, KindTag, salienceTag, "")
	}
	for _, keyword := range r.Keywords {
		add(keyword, KindKeyword, salienceKeyword, "")
	}
	text := words(r.Content, maxDocumentWords)
	if title := words(r.Title, maxDocumentWords); len(title) > maxNameWords {
		if len(text) > 0 {
			text[0].gap = "\n"
		}
		text = append(title, text...)
	}
	for _, a := range abbreviations(text) {
		add(a.full, KindName, salienceName, "")
		add(a.short, KindName, salienceName, key(words(a.full, maxNameWords)))
	}
	for _, name := range names(text) {
		add(name, KindName, salienceName, "")
	}
	for _, phrase := range nounPhrases(text) {
		add(phrase, KindKeyword, saliencePhrase, "")
	}
	slices.SortStableFunc(out, func(a, b Concept) int { return cmp.Compare(b.Salience, a.Salience) })
	return out[:min(len(out), maxConcepts)]
}

// names returns the names in a text. Duplicates are possible.
func names(ws []word) []string {
	lower := map[string]bool{} // lower-case words of the text, which are no names when capitalised at a sentence start
	for _, w := range ws {
		if w.raw == w.fold {
			lower[w.fold] = true
		}
	}
	var out []string
	var run []word
	var opens bool // the run starts a sentence
	flush := func() {
		for len(run) > 0 && connectors[run[len(run)-1].fold] {
			run = run[:len(run)-1]
		}
		for opens && len(run) > 1 && !plausible(run[0], lower) {
			run, opens = run[1:], false
			for len(run) > 0 && connectors[run[0].fold] {
				run = run[1:]
			}
		}
		single := len(run) == 1
		content := 0
		for _, w := range run {
			if !connectors[w.fold] {
				content++
			}
		}
		switch {
		case len(run) == 0, content > maxRunWords:
		case single && (utf8.RuneCountInString(run[0].raw) < 2 || opens && !plausible(run[0], lower)):
		default:
			out = append(out, joined(run))
		}
		run = nil
	}
	for i, w := range ws {
		id := identifier(w.raw)
		adjacent := i > 0 && (w.gap == " " || w.gap == " & " || w.gap == ". " && abbreviated(ws[i-1]))
		capital := capitalised(w.raw) && !stopWord(w.fold)
		if !adjacent {
			flush()
		}
		switch {
		case honorifics[w.fold]:
			flush()
		case len(run) > 0 && (capital || number(w.raw) || connectors[w.fold] && w.fold != "the" || w.fold == "the" && connectors[run[len(run)-1].fold]):
			run = append(run, w)
		case capital:
			flush()
			run, opens = []word{w}, i == 0 || strings.ContainsAny(w.gap, ".!?:;\n\"“”‘'([*-–—•>#|…")
		default:
			flush()
		}
		if id {
			out = append(out, w.raw)
		}
	}
	flush()
	return out
}

// joined spells a run as in the text.
func joined(run []word) string {
	var b strings.Builder
	for i, w := range run {
		if i > 0 {
			b.WriteString(w.gap)
		}
		b.WriteString(w.raw)
	}
	return b.String()
}

// plausible reports whether a capitalised word at the start of a sentence may be a name. One before a colon may be a speaker.
func plausible(w word, lower map[string]bool) bool {
	return identifier(w.raw) || !commonWords[w.fold] && !opens(w.fold) && (w.next == ':' || !lower[w.fold])
}

// abbreviated reports whether a full stop may belong to a word: Dr. Vale, J. Okafor.
func abbreviated(w word) bool {
	return honorifics[w.fold] || utf8.RuneCountInString(w.raw) == 1 && capitalised(w.raw)
}

func capitalised(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r) || unicode.IsTitle(r)
}

// number reports whether a word can be a name's number: Windows 11, Python 3.12.
func number(w string) bool {
	return len(w) <= 4 && strings.Trim(w, "0123456789.") == "" && (len(w) < 4 || strings.Contains(w, "."))
}

var (
	quantity = regexp.MustCompile(`^[0-9][0-9.,]*([a-z]{1,3}|-[a-z-]+)$`)           // 20ms, 3rd, 14-day
	dotted   = regexp.MustCompile(`^([0-9]+\.){2,}[0-9]+$`)                         // 10.0.0.3
	camel    = regexp.MustCompile(`\p{Ll}\p{Lu}`)                                   // getUserById
	snake    = regexp.MustCompile(`[\p{L}\p{N}]_+[\p{L}\p{N}]`)                     // ERR_CONN_RESET
	file     = regexp.MustCompile(`^[\p{L}\p{N}_-]{2,}(\.[a-z][a-z0-9]{1,4}){1,}$`) // values.yaml
	address  = regexp.MustCompile(`^[^@]+@[^@]+\.[^@]+$`)
)

// identifier reports whether a word's form makes it a name.
func identifier(w string) bool {
	if len(w) > maxNameBytes {
		return false
	}
	digit := strings.ContainsAny(w, "0123456789")
	letter := strings.IndexFunc(w, unicode.IsLetter) >= 0
	switch {
	case digit && letter && !quantity.MatchString(w):
		return true
	case digit && dotted.MatchString(w):
		return true
	}
	// What each form needs is looked for first: most words have none of it.
	return letter && (strings.LastIndexFunc(w, unicode.IsUpper) > 0 && camel.MatchString(w) || strings.Contains(w, "_") && snake.MatchString(w) ||
		strings.Contains(w, ".") && file.MatchString(w) || strings.Contains(w, "@") && address.MatchString(w))
}

// openings are endings of words that open sentences, such as "finally" and "recently".
var openings = []string{"ing", "ently", "antly", "edly", "ously", "ively", "tely", "ctly", "ckly", "rely", "bly"}

// opens reports whether a word has such an ending.
func opens(word string) bool {
	if stem, ok := strings.CutSuffix(word, "ally"); ok && utf8.RuneCountInString(stem) >= 3 {
		return true
	}
	return slices.ContainsFunc(openings, func(ending string) bool { return strings.HasSuffix(word, ending) })
}
