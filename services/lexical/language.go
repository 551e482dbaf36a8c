package lexical

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/turkish"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// language has the rules that turn words into terms. Without a stemmer, words are terms.
type language struct {
	stem func(string) string
	stop map[string]bool
}

// languages have the names of PostgreSQL's text search configurations.
var languages = map[string]language{
	"simple":     {},
	"danish":     {snowball(danish.Stem), stopWords["danish"]},
	"dutch":      {snowball(dutch.Stem), stopWords["dutch"]},
	"english":    {snowball(english.Stem), stopWords["english"]},
	"finnish":    {snowball(finnish.Stem), stopWords["finnish"]},
	"french":     {snowball(french.Stem), stopWords["french"]},
	"german":     {snowball(german.Stem), stopWords["german"]},
	"hungarian":  {snowball(hungarian.Stem), stopWords["hungarian"]},
	"italian":    {snowball(italian.Stem), stopWords["italian"]},
	"norwegian":  {snowball(norwegian.Stem), stopWords["norwegian"]},
	"portuguese": {snowball(portuguese.Stem), stopWords["portuguese"]},
	"romanian":   {snowball(romanian.Stem), stopWords["romanian"]},
	"russian":    {snowball(russian.Stem), stopWords["russian"]},
	"spanish":    {snowball(spanish.Stem), stopWords["spanish"]},
	"swedish":    {snowball(swedish.Stem), stopWords["swedish"]},
	"turkish":    {snowball(turkish.Stem), stopWords["turkish"]},
}

var languageNames = slices.Sorted(maps.Keys(languages))

// Languages returns the names of all languages, sorted.
func Languages() []string { return slices.Clone(languageNames) }

func snowball(stem func(*snowballstem.Env) bool) func(string) string {
	return func(word string) string {
		env := snowballstem.NewEnv(word)
		stem(env)
		if stemmed := env.Current(); stemmed != "" {
			return stemmed
		}
		return word
	}
}

//go:embed stopwords.txt
var stopWordsFile string

// stopWords are the stop words of PostgreSQL's dictionaries, normalized, and English contractions without their apostrophes.
var stopWords = func() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for line := range strings.Lines(stopWordsFile) {
		name, words, _ := strings.Cut(line, ":")
		all[name] = slice.Set(strings.Fields(words))
	}
	return all
}()

// mostWords bounds the words of a query that tell its language.
const mostWords = 100

// foreign returns the stop words of a query's language, if that is another one: two or more of the words are among them, and fewer
// among l's. A store of a few memories lacks most of them, so they would seem to be rare words.
func (l language) foreign(words []string) (found map[string]bool) {
	among := func(stop map[string]bool) (n int) {
		for _, word := range words {
			if stop[word] {
				n++
			}
		}
		return n
	}
	most := max(among(l.stop), 1)
	for _, name := range languageNames {
		if n := among(stopWords[name]); n > most {
			found, most = stopWords[name], n
		}
	}
	return found
}
