package tokens

import (
	"bytes"
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// Stem cuts common English endings, so that "deploy", "deploys", "deployed" and "deploying" count as one word. It is
// simpler than Porter's stemmer. A wrong cut does little harm: it is the same in documents and queries.
func Stem(word []byte) []byte {
	if len(word) < 4 {
		return word
	}
	for _, c := range word {
		if c < 'a' || c > 'z' {
			return word
		}
	}
	switch { // plurals, after Harman's S-stemmer
	case ends(word, "ies") && len(word) > 4:
		word = word[:len(word)-2] // the "i" goes below
	case ends(word, "sses"), ends(word, "xes"), ends(word, "ches"), ends(word, "shes"):
		word = word[:len(word)-2]
	case ends(word, "s") && !ends(word, "ss") && !ends(word, "us") && !ends(word, "is"):
		word = word[:len(word)-1]
	}
	for _, ending := range [...]string{"ing", "ed"} {
		if ends(word, "eed") {
			break
		}
		if cut := bytes.TrimSuffix(word, []byte(ending)); len(cut) < len(word) && len(cut) >= 3 && bytes.ContainsAny(cut, "aeiouy") {
			word = cut
			if last := word[len(word)-1]; last == word[len(word)-2] && !strings.ContainsRune("aeiouls", rune(last)) {
				word = word[:len(word)-1] // running, planned
			}
			break
		}
	}
	if len(word) > 3 {
		switch word[len(word)-1] {
		case 'e', 'y', 'i': // make and making, reply and replied
			word = word[:len(word)-1]
		}
	}
	return word
}

func ends(word []byte, suffix string) bool { return bytes.HasSuffix(word, []byte(suffix)) }

// StopWord reports whether a folded word is an English stop word.
func StopWord(word []byte) bool { return stopWords[string(word)] }

// stopWords include the parts of words with an apostrophe, such as "don" and "t".
var stopWords = slice.Set(strings.Fields(`
	a about above after again all also am an and any are as at be because been before being below between both but by
	can could d did do does doing don down during each few for from further had has have having he her here hers him
	his how i if in into is isn it its just ll m me more most my no nor not now of off on once only or other our ours
	out over own re s same she should so some such t than that the their theirs them then there these they this those
	through to too under until up us ve very was we were what when where which while who whom why will with would you
	your yours`))
