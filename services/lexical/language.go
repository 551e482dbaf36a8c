package lexical

import (
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

// languages have the names of PostgreSQL's text search configurations. Only English has stop words. Other frequent words get
// a low weight from their document frequency.
var languages = map[string]language{
	"simple":     {},
	"danish":     {stem: snowball(danish.Stem)},
	"dutch":      {stem: snowball(dutch.Stem)},
	"english":    {stem: snowball(english.Stem), stop: stopWords},
	"finnish":    {stem: snowball(finnish.Stem)},
	"french":     {stem: snowball(french.Stem)},
	"german":     {stem: snowball(german.Stem)},
	"hungarian":  {stem: snowball(hungarian.Stem)},
	"italian":    {stem: snowball(italian.Stem)},
	"norwegian":  {stem: snowball(norwegian.Stem)},
	"portuguese": {stem: snowball(portuguese.Stem)},
	"romanian":   {stem: snowball(romanian.Stem)},
	"russian":    {stem: snowball(russian.Stem)},
	"spanish":    {stem: snowball(spanish.Stem)},
	"swedish":    {stem: snowball(swedish.Stem)},
	"turkish":    {stem: snowball(turkish.Stem)},
}

// Languages returns the names of all languages, sorted.
func Languages() []string {
	return slices.Sorted(maps.Keys(languages))
}

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

// stopWords are the stop words of PostgreSQL's English dictionary.
var stopWords = slice.Set(strings.Fields(`
	i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself
	they them their theirs themselves what which who whom this that these those am is are was were be been being have has had
	having do does did doing a an the and but if or because as until while of at by for with about against between into through
	during before after above below to from up down in out on off over under again further then once here there when where why
	how all any both each few more most other some such no nor not only own same so than too very s t can will just don should now`))
