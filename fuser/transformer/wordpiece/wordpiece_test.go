package wordpiece_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/transformer/wordpiece"
)

// vocabulary has the given tokens at their ids and others that no text has everywhere else.
func vocabulary(size int, tokens map[int]string) []string {
	all := make([]string, size)
	for id := range all {
		all[id] = fmt.Sprintf("[unused%d]", id)
		if token, known := tokens[id]; known {
			all[id] = token
		}
	}
	return all
}

func parse(t *testing.T, tokens []string, lower bool) *wordpiece.Tokenizer {
	t.Helper()
	ids := map[string]int{}
	for id, token := range tokens {
		ids[token] = id
	}
	text, err := json.Marshal(map[string]any{
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": lower},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"model": map[string]any{
			"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := wordpiece.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

// The ids are those that Hugging Face's documentation prints for these sentences ("Preprocess" and the course's chapter
// 2.4), and that its tests expect of the small vocabulary. Of the large ones only the tokens that occur are here.
func TestPublishedIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tokens []string
		lower  bool
		text   string
		ids    []int
	}{
		{
			vocabulary(30522, map[int]string{
				0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1010: ",", 1012: ".", 1996: "the", 1997: "of", 1998: "and", 1999: "in",
				2000: "to", 2005: "for", 2024: "are", 2025: "not", 2027: "they", 2079: "do", 3821: "affairs", 4248: "quick", 4963: "anger",
				10362: "##dle", 11259: "subtle", 16657: "wizards", 19960: "med",
			}), true,
			"Do not meddle in the affairs of wizards, for they are subtle and quick to anger.",
			[]int{2079, 2025, 19960, 10362, 1999, 1996, 3821, 1997, 16657, 1010, 2005, 2027, 2024, 11259, 1998, 4248, 2000, 4963, 1012},
		},
		{
			vocabulary(28996, map[int]string{
				0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 170: "a", 1110: "is", 2443: "network", 3014: "simple", 7993: "Using",
				13809: "Trans", 23763: "##former",
			}), false,
			"Using a Transformer network is simple",
			[]int{7993, 170, 13809, 23763, 2443, 1110, 3014},
		},
		{
			[]string{"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "low", "lowest"}, true,
			"UNwant\u00E9d,running", []int{9, 6, 7, 12, 10, 11},
		},
	} {
		listed, err := wordpiece.FromVocabulary(c.tokens, c.lower)
		if err != nil {
			t.Fatal(err)
		}
		for form, tokenizer := range map[string]*wordpiece.Tokenizer{"vocab.txt": listed, "tokenizer.json": parse(t, c.tokens, c.lower)} {
			if got := tokenizer.IDs(c.text); !slices.Equal(got, c.ids) {
				t.Errorf("%s: %q has the ids %v, want %v", form, c.text, got, c.ids)
			}
		}
	}
}

// What no token covers is one unknown token per word; what is a token of its own is taken before words are looked at.
func TestUnknown(t *testing.T) {
	t.Parallel()
	tokenizer, err := wordpiece.FromVocabulary([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "Sea", "##side", "!"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int{
		"Sea sea Seaside!": {4, 1, 4, 5, 6}, "Seabird Sea": {1, 4}, "[SEP]Sea[CLS]": {3, 4, 2}, "": nil, "Séa": {1}, "Sea[CLS]Sea![SEP] Sea[PAD][CLS]": {4, 2, 4, 6, 3, 4, 0, 2},
	} {
		if got := tokenizer.IDs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if id, known := tokenizer.ID("[CLS]"); !known || id != 2 || tokenizer.Unknown() != 1 || tokenizer.Size() != 7 {
		t.Errorf("[CLS] is %d, %v; unknown %d of %d", id, known, tokenizer.Unknown(), tokenizer.Size())
	}
	for name, tokens := range map[string][]string{"a token twice": {"[UNK]", "a", "a"}, "no unknown token": {"a"}, "nothing": nil} {
		if _, err := wordpiece.FromVocabulary(tokens, true); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The time for a text of added tokens grows with its length, not with its square.
func TestManyAddedTokens(t *testing.T) {
	t.Parallel()
	tokenizer, err := wordpiece.FromVocabulary([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}, true)
	if err != nil {
		t.Fatal(err)
	}
	const n = 400_000
	start := time.Now()
	if got := len(tokenizer.IDs(strings.Repeat("[SEP]", n))); got != n {
		t.Errorf("got %d tokens, want %d", got, n)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// FuzzParse reads tokenizers of all kinds. Those that it accepts give ids that exist.
func FuzzParse(f *testing.F) {
	const head, tail = `{"normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]",`, `}}`
	f.Add([]byte(head+`"continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"sea":1,"##s":2}`+tail), "Seas, [UNK] \xff 東")
	f.Add([]byte(head+`"vocab":{"[UNK]":0,"":1}`+tail), "sea")
	f.Add([]byte(head+`"vocab":null},"added_tokens":[{"id":0,"content":"[UNK]"}`+`]}`), "[UNK]")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tokenizer, err := wordpiece.Parse(file)
		if err != nil {
			return
		}
		for _, id := range tokenizer.IDs(text) {
			if id < 0 || id >= tokenizer.Size() {
				t.Errorf("%q has the id %d of %d", text, id, tokenizer.Size())
			}
		}
	})
}
