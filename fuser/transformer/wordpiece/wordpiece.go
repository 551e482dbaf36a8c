// Package wordpiece is BERT's tokenizer (WordPiece, Devlin et al. 2019). It reads a tokenizer.json of Hugging Face's
// tokenizers, or a vocab.txt. A text becomes token ids in these steps:
//
//  1. Added tokens, such as [SEP], are found in the text as they are. The steps below treat the text between them.
//  2. The text is normalised as configured: control characters and accents go, letters become lower case, and Chinese
//     characters get spaces around them.
//  3. It is split into words at white space and around punctuation marks.
//  4. Each word becomes the longest token that it begins with, then the longest token that its rest begins with, and so on.
//     Tokens inside words have a prefix, "##". A word that tokens cannot cover becomes the unknown token.
package wordpiece

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer turns texts into ids of tokens. It may be used concurrently.
type Tokenizer struct {
	vocabulary map[string]int
	added      []string // tokens that are found in the raw text, longest first
	prefix     string   // of tokens that continue a word
	maxWord    int      // in characters; longer words are unknown
	unknown    int      // id of the unknown token
	median     int      // median length of the tokens in characters

	lower, clean, chinese bool // steps of normalisation
	accents               bool // remove accents
}

// Load reads the tokenizer.json of a folder, or else its vocab.txt with tokenizer_config.json, which says whether case counts.
func Load(folder fs.FS) (*Tokenizer, error) {
	t, err := load(folder, "tokenizer.json", Parse)
	if errors.Is(err, fs.ErrNotExist) {
		t, err = load(folder, "vocab.txt", func(text []byte) (*Tokenizer, error) {
			var config struct {
				Lower *bool `json:"do_lower_case"`
			}
			if text, err := fs.ReadFile(folder, "tokenizer_config.json"); err == nil {
				if err := json.Unmarshal(text, &config); err != nil {
					return nil, fmt.Errorf("tokenizer_config.json: %w", err)
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
			return FromVocabulary(lines, config.Lower == nil || *config.Lower)
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the folder has neither tokenizer.json nor vocab.txt")
	}
	return t, err
}

func load(folder fs.FS, name string, parse func([]byte) (*Tokenizer, error)) (*Tokenizer, error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Parse reads a tokenizer.json. It returns an error for a tokenizer other than BERT's.
func Parse(file []byte) (*Tokenizer, error) {
	var spec struct {
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
		Normalizer struct {
			Type    string `json:"type"`
			Clean   bool   `json:"clean_text"`
			Chinese bool   `json:"handle_chinese_chars"`
			Accents *bool  `json:"strip_accents"`
			Lower   bool   `json:"lowercase"`
		} `json:"normalizer"`
		PreTokenizer struct {
			Type string `json:"type"`
		} `json:"pre_tokenizer"`
		Model struct {
			Type    string          `json:"type"`
			Unknown string          `json:"unk_token"`
			Prefix  string          `json:"continuing_subword_prefix"`
			MaxWord int             `json:"max_input_chars_per_word"`
			Words   json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(file, &spec); err != nil {
		return nil, err
	}
	for _, part := range [][3]string{
		{"model", spec.Model.Type, "WordPiece"},
		{"normalizer", spec.Normalizer.Type, "BertNormalizer"},
		{"pre_tokenizer", spec.PreTokenizer.Type, "BertPreTokenizer"},
	} {
		if part[1] != part[2] {
			return nil, fmt.Errorf("%s %q is not supported: it must be %s", part[0], part[1], part[2])
		}
	}
	t := &Tokenizer{
		prefix: spec.Model.Prefix, maxWord: spec.Model.MaxWord,
		lower: spec.Normalizer.Lower, clean: spec.Normalizer.Clean, chinese: spec.Normalizer.Chinese, accents: spec.Normalizer.Lower,
	}
	if spec.Normalizer.Accents != nil {
		t.accents = *spec.Normalizer.Accents
	}
	if err := json.Unmarshal(spec.Model.Words, &t.vocabulary); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if t.vocabulary == nil {
		return nil, errors.New("vocab: there are no tokens")
	}
	for _, token := range spec.Added {
		if token.Content != "" {
			t.vocabulary[token.Content] = token.ID
			t.added = append(t.added, token.Content)
		}
	}
	return t, t.finish(spec.Model.Unknown)
}

// special are BERT's tokens that are no words.
var special = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

// FromVocabulary makes a tokenizer from the lines of a vocab.txt: the tokens in the order of their ids. lower is true for an
// uncased model: letters become lower case and lose their accents.
func FromVocabulary(tokens []string, lower bool) (*Tokenizer, error) {
	t := &Tokenizer{
		vocabulary: make(map[string]int, len(tokens)), prefix: "##", maxWord: 100,
		lower: lower, clean: true, chinese: true, accents: lower,
	}
	for id, token := range tokens {
		if _, twice := t.vocabulary[token]; twice {
			return nil, fmt.Errorf("vocab: token %d occurs twice", id)
		}
		t.vocabulary[token] = id
	}
	for _, token := range special {
		if _, known := t.vocabulary[token]; known {
			t.added = append(t.added, token)
		}
	}
	return t, t.finish("[UNK]")
}

// finish checks the vocabulary, and computes the unknown token's id and the median length.
func (t *Tokenizer) finish(unknown string) error {
	slices.SortFunc(t.added, func(a, b string) int { return len(b) - len(a) })
	var lengths []int
	for token, id := range t.vocabulary {
		if id < 0 || id >= len(t.vocabulary) {
			return fmt.Errorf("vocab: a token has the id %d, and there are %d tokens: ids must count up from 0", id, len(t.vocabulary))
		}
		lengths = append(lengths, utf8.RuneCountInString(token))
	}
	var known bool
	if t.unknown, known = t.vocabulary[unknown]; !known {
		return fmt.Errorf("vocab: the unknown token %q is missing", unknown)
	}
	slices.Sort(lengths)
	t.median = (lengths[(len(lengths)-1)/2] + lengths[len(lengths)/2]) / 2
	return nil
}

// Size returns the number of tokens. Ids are below it.
func (t *Tokenizer) Size() int { return len(t.vocabulary) }

// Unknown returns the id of the unknown token.
func (t *Tokenizer) Unknown() int { return t.unknown }

// MedianLength returns the median length of the tokens in characters.
func (t *Tokenizer) MedianLength() int { return t.median }

// ID returns the id of a token.
func (t *Tokenizer) ID(token string) (id int, known bool) {
	id, known = t.vocabulary[token]
	return id, known
}

// IDs returns the ids of a text's tokens, without tokens for its start and end.
func (t *Tokenizer) IDs(text string) []int {
	var ids []int
	next := make([]int, len(t.added)) // the place of each added token, up to date unless below from
	for i := range next {
		next[i] = -1
	}
	for from := 0; from < len(text); {
		at, token := len(text), ""
		for i, added := range t.added {
			if next[i] < from {
				if next[i] = strings.Index(text[from:], added); next[i] < 0 {
					next[i] = len(text)
				} else {
					next[i] += from
				}
			}
			if next[i] < at {
				at, token = next[i], added
			}
		}
		for _, word := range t.split(text[from:at]) {
			ids = t.pieces(ids, word)
		}
		if token != "" {
			ids = append(ids, t.vocabulary[token])
		}
		from = at + len(token)
	}
	return ids
}

// split normalises a text and returns its words and punctuation marks.
func (t *Tokenizer) split(text string) []string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case t.clean && (r == 0 || r == utf8.RuneError || control(r)):
		case t.clean && unicode.IsSpace(r):
			b.WriteByte(' ')
		case t.chinese && unicode.Is(ideographs, r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	text = b.String()
	if t.accents {
		text = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, norm.NFD.String(text))
	}
	if t.lower {
		text = strings.ToLower(text)
	}
	var words []string
	for _, word := range strings.FieldsFunc(text, unicode.IsSpace) {
		start := 0
		for i, r := range word {
			if punctuation(r) {
				if start < i {
					words = append(words, word[start:i])
				}
				start = i + utf8.RuneLen(r)
				words = append(words, word[i:start])
			}
		}
		if start < len(word) {
			words = append(words, word[start:])
		}
	}
	return words
}

// pieces appends the tokens that cover a word, each as long as possible, or the unknown token if none fits somewhere.
func (t *Tokenizer) pieces(ids []int, word string) []int {
	if utf8.RuneCountInString(word) > t.maxWord {
		return append(ids, t.unknown)
	}
	before := len(ids)
	piece := make([]byte, 0, len(t.prefix)+len(word))
	for start := 0; start < len(word); {
		end, id := len(word), -1
		for end > start {
			piece = piece[:0]
			if start > 0 {
				piece = append(piece, t.prefix...)
			}
			piece = append(piece, word[start:end]...)
			if found, known := t.vocabulary[string(piece)]; known {
				id = found
				break
			}
			_, size := utf8.DecodeLastRuneInString(word[start:end])
			end -= size
		}
		if id < 0 {
			return append(ids[:before], t.unknown)
		}
		ids = append(ids, id)
		start = end
	}
	return ids
}

func control(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
}

// punctuation reports whether a character is punctuation for BERT: Unicode's, and all ASCII symbols.
func punctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
	}
	return unicode.IsPunct(r)
}

// ideographs are the blocks whose characters are words of their own for BERT.
var ideographs = &unicode.RangeTable{
	R16: []unicode.Range16{{0x3400, 0x4DBF, 1}, {0x4E00, 0x9FFF, 1}, {0xF900, 0xFAFF, 1}},
	R32: []unicode.Range32{{0x20000, 0x2A6DF, 1}, {0x2A700, 0x2B73F, 1}, {0x2B740, 0x2B81F, 1}, {0x2B920, 0x2CEAF, 1}, {0x2F800, 0x2FA1F, 1}},
}
