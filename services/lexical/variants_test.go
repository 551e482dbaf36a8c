package lexical

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/embed/forms"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
)

// A word counts as its other forms, too: abbreviations, spellings of another country, irregular forms, and two words as one.
func TestVariants(t *testing.T) {
	texts := []string{
		"the setup of a laptop", "set up the tent", "users log in with a link", "in the UTC time zone", "the time of the frost zone", "an e-mail on Tuesday", "the front-end is Svelte",
		"a dropdown of countries", "64 GB of memory", "the code 1024", "an in box of wood", "kubernetes in Frankfurt", "a k8s upgrade", "each pull request has a review",
		"the request to pull", "Sara flew to Lisbon", "a gray theme", "the colour teal", "two approvers", "checkout is slow", "the userName column", "the tag user_name",
		"written in TS", "we're moving to Berlin", "an author of these", "vitamin C at noon", "an inbox for letters", "a prod outage",
	}
	m := imageOf(DefaultSettings(), texts...)
	for query, want := range map[string][]string{
		"set up a laptop":              {texts[0], texts[1]},
		"setup":                        {texts[0], texts[1]},
		"login":                        {texts[2]},
		"timezone":                     {texts[3]}, // not words that are apart
		"timezones":                    {texts[3]},
		"email":                        {texts[5]},
		"frontend":                     {texts[6]},
		"drop-down":                    {texts[7]},
		"drop down":                    {texts[7]},
		"drop, down":                   nil,
		"64GB":                         {texts[8]},
		"10 24":                        nil,         // another number
		"inbox":                        {texts[26]}, // not "in box", as "in" begins many nouns
		"in box":                       {texts[10]},
		"TypeScript":                   {texts[22]},
		"typescript":                   {texts[22]},
		"remove":                       nil, // not "we're moving"
		"auth":                         nil, // the stem of authorization is author
		"products":                     nil, // nor is it production
		"cat":                          nil, // not "C at"
		"kubernetes":                   {texts[11], texts[12]},
		"k8s":                          {texts[11], texts[12]},
		"PR":                           {texts[13]},
		"pull requests":                {texts[13], texts[14]},
		"did Sara fly":                 {texts[15]},
		"grey":                         {texts[16]},
		"color":                        {texts[17]},
		"2 approvers":                  {texts[18]},
		"check-out":                    {texts[19]},
		"username":                     {texts[20], texts[21]},
		"log in":                       {texts[2]},
		"Deutsche db und die Zeit ist": nil, // German
	} {
		q := leg.Query{Text: query, Depth: 30}
		got := m.search(t, q)
		var found []string
		for _, hit := range got.Hits {
			found = append(found, m.records[hit.ID].Content)
		}
		slices.Sort(found)
		if want := slices.Sorted(slices.Values(want)); !slices.Equal(found, want) {
			t.Errorf("%q finds %q, want %q", query, found, want)
		}
		if len(got.Hits) > 0 && got.Hits[0].Matched != 1 {
			t.Errorf("the first hit of %q has %v of its words, want all", query, got.Hits[0].Matched)
		}
		if brief := m.loaded(t, query).search(t, q); !slices.Equal(brief.Hits, got.Hits) {
			t.Errorf("loaded for %q alone there are the hits %+v, want %+v", query, brief.Hits, got.Hits)
		}
	}
}

// A memory with the form that was asked for comes before one with another form, and a word that is known in another form is not corrected.
func TestVariantsScore(t *testing.T) {
	m := imageOf(DefaultSettings(), "the db of orders", "the database of orders", "a databaze of orders", "wood")
	got := m.search(t, leg.Query{Text: "database", Depth: 10})
	if len(got.Hits) != 2 || m.records[got.Hits[0].ID].Content != "the database of orders" || got.Hits[1].Score < 0.8*got.Hits[0].Score {
		t.Errorf("got %+v, want the database before the db, by little", got.Hits)
	}
	m = imageOf(DefaultSettings(), "the worksheet", "a flimsy work shed", "wood")
	if got = m.search(t, leg.Query{Text: "workshed", Depth: 10}); len(got.Hits) != 1 || m.records[got.Hits[0].ID].Content != "a flimsy work shed" {
		t.Errorf("got %+v, want the work shed alone", got.Hits)
	}
}

// The postings of two forms are those of each, with the higher frequency of a memory that has both. The second form's count a fifth less.
func TestPostingsOfForms(t *testing.T) {
	a := postingList{postings: []uint32{1<<8 | 10, 3<<8 | 255, 5<<8 | 20}, number: 7, maxFrequency: 400, minLength: 30}
	b := postingList{postings: []uint32{2<<8 | 255, 5<<8 | 30, 9<<8 | 1}, number: 8, maxFrequency: 300, minLength: 20}
	for _, c := range []struct {
		got  postingList
		want []uint32
	}{
		{a.with(b), []uint32{1<<8 | 10, 2<<8 | 204, 3<<8 | 254, 5<<8 | 24, 9<<8 | 1}},
		{b.with(a), []uint32{1<<8 | 8, 2<<8 | 254, 3<<8 | 204, 5<<8 | 30, 9<<8 | 1}},
	} {
		if !slices.Equal(c.got.postings, c.want) || c.got.maxFrequency != 400 || c.got.minLength != 20 {
			t.Errorf("got %v, want the postings %v, 400 and 20", c.got, c.want)
		}
	}
	if got := (postingList{}).with(b); got.number != b.number || !slices.Equal(got.postings, b.postings) {
		t.Errorf("got %v, want %v", got, b)
	}
	a.postings = make([]uint32, maxVariedPostings)
	for _, got := range []postingList{a.with(b), b.with(a)} {
		if len(got.postings) != len(a.postings) || got.number != a.number {
			t.Errorf("got %d postings, want those of the frequent term alone", len(got.postings))
		}
	}
}

// Forms of several words are looked for until much has been read.
func TestReadingForms(t *testing.T) {
	texts := slices.Repeat([]string{"in the time zone" + strings.Repeat(" wood", 100)}, maxFormRows+1)
	m := imageOf(DefaultSettings(), texts...)
	s := newBM25(t.Context(), m.index, m.rows.Select(record.Filter{}, time.Time{}), understand("timezone", m.index.settings))
	var words []phraseWord
	for i, name := range []string{"time", "zone"} {
		number, _ := s.known(name)
		words = append(words, phraseWord{number, int32(i)})
	}
	size := len(s.forwardOf(0)) / rowBytes
	for left, want := range map[int]int{
		maxRead: maxFormRows, len(texts): 0, len(texts) - 1: 0, len(texts) + 3*size: 3,
	} {
		if size == 0 {
			t.Fatal("rows are too short for this test")
		}
		if got := s.inARow(t.Context(), words, maxFormRows, &left); len(got.postings) != want {
			t.Errorf("got %d postings, want %d", len(got.postings), want)
		}
	}
	if got := languages["english"].halves(strings.Repeat("a", maxHalved+1)); len(got) > 0 {
		t.Errorf("a long word has the halves %q", got)
	}
	long := strings.Repeat("wood, ", forms.MaxVaried)
	if got := understand(long[6:]+"k8s", m.index.settings).variants; len(got) == 0 {
		t.Error("the last word of few has no other form")
	}
	for _, last := range []string{"k8s", "10k"} {
		if got := understand(long+last, m.index.settings).variants; len(got) > 0 {
			t.Errorf("the last word of many has the forms %v", got)
		}
	}
}

// Pruning loses no memory that has another form.
func TestFormsAreNotPruned(t *testing.T) {
	texts := []string{"a k8s cluster, of no known time zone or other habit, in a long memory"}
	for i := range 3 * windowRows {
		texts = append(texts, fmt.Sprintf("a login of user %d", i), "the time", "some zone of frost")
	}
	texts = append(texts, "log in at the time zone", "the k8s time zone")
	m := imageOf(DefaultSettings(), texts...)
	for query, depth := range map[string]int{"login timezone": 2, "kubernetes timezone login": 2, "kubernetes timezone": 1} {
		all, best := m.search(t, leg.Query{Text: query, Depth: len(texts)}), m.search(t, leg.Query{Text: query, Depth: depth})
		if len(best.Hits) != depth || !slices.Equal(best.Hits, all.Hits[:depth]) {
			t.Errorf("%s: got %+v, want %+v", query, best.Hits, all.Hits[:depth])
		}
	}
}

// Other forms of a query's words are matches of it.
func TestVariantMatches(t *testing.T) {
	const text = "The database, in the UTC time zone. Zone time."
	found, err := DefaultSettings().matches(t.Context(), "db timezone", []record.Record{{Content: text}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, span := range found[0].Content {
		got = append(got, text[span.Start:span.End])
	}
	if want := []string{"database", "time", "zone"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// No form has the stem of another common word: memories are compared by stems.
func TestVariantsOfOtherWords(t *testing.T) {
	english := languages["english"]
	for _, word := range strings.Fields("terminal except responsible personal assistant wedding apart year access local tire organic intelligence assign observe") {
		if of := listedForms()[english.stem(word)]; len(of) > 0 && of[0].written != word {
			t.Errorf("%q has the stem of %q", of[0].written, word)
		}
	}
}

// Each line of the list has several forms of few words, and none of its forms is the same for the index.
func TestVariantsFile(t *testing.T) {
	for form, of := range listedForms() {
		if words := len(strings.Fields(form)); words < 1 || words > forms.MaxWords {
			t.Errorf("%q has %d words, want 1 to %d", form, words, forms.MaxWords)
		}
		if languages["english"].stop[form] {
			t.Errorf("%q is a stop word", form)
		}
		for _, f := range of {
			if len(f.others) == 0 || slices.Contains(f.others, form) || slices.Contains(f.others, "") {
				t.Errorf("the other forms of %q are %q", f.written, f.others)
			}
		}
	}
}
