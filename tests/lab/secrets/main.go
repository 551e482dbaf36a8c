// Command secrets makes secrets by the rules of a maintained detector, gitleaks, and says which of them services/agents/secrets lets pass.
// The detector's rules are read from its module, which is no part of this project. Each secret stands where people leave one: after a
// name in a file of settings, in JSON, and in a sentence. Only those count that the detector finds, too.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/triskele/triskele/services/agents/secrets"
)

const (
	// detector is the version of the rules.
	detector = "github.com/zricethezav/gitleaks/v8@v8.30.1"
	// samples are made by each rule.
	samples = 20
	// missed is how many rules may find secrets that pass: Dropbox's some letters, which may be a word, and Square's some that may be data.
	missed = 2
)

// rule is one of the detector's. The secret is the first group of its expression, or all of it.
type rule struct{ ID, Regex string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	rules, err := download()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	tried, followed := 0, 0
	for _, r := range rules {
		passed, all, err := r.try(random)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", r.ID, err)
		case all == 0:
			fmt.Printf("%-45s no sample\n", r.ID)
			continue
		case len(passed) == 0:
			followed++
		default:
			fmt.Printf("%-45s %d of %d pass, such as %.200q\n", r.ID, len(passed), all, passed[0])
		}
		tried++
	}
	fmt.Printf("%d of %d rules are followed\n", followed, tried)
	if tried-followed > missed {
		return fmt.Errorf("%d rules find secrets that pass, more than %d", tried-followed, missed)
	}
	return nil
}

// download returns the detector's rules.
func download() ([]rule, error) {
	out, err := exec.Command("go", "mod", "download", "-json", detector).Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", detector, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "config", "gitleaks.toml"))
	if err != nil {
		return nil, err
	}
	var config struct{ Rules []rule }
	err = toml.Unmarshal(text, &config)
	return config.Rules, err
}

// public are the rules for what is no secret: a client's id, a key that browsers are given.
var public = regexp.MustCompile(`-id$|-pub(lic)?-`)

// unlike are the rules whose samples are not as what they look for: a token holds JSON or a known word in base64, a key is base64. The last
// rule takes each commit's hash for a token.
var unlike = []string{"jwt", "artifactory-reference-token", "private-key", "sourcegraph-access-token"}

// try makes secrets, and counts those that the detector finds. It returns a text for each of them that passes in one of its places.
func (r rule) try(random *rand.Rand) (passed []string, all int, err error) {
	if r.Regex == "" || public.MatchString(r.ID) || slices.Contains(unlike, r.ID) { // the first is about names of files
		return nil, 0, nil
	}
	pattern, err := regexp.Compile(r.Regex)
	if err != nil {
		return nil, 0, err
	}
	written := strings.NewReplacer("(?i)", "", "(?i:", "(?:").Replace(r.Regex) // samples have the case in which the rule is written
	tree, err := syntax.Parse(written, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	name := strings.ReplaceAll(r.ID, "-", "_")
	for range samples {
		var text strings.Builder
		if err := write(&text, group(tree), random); err != nil {
			return nil, 0, err
		}
		s := text.String()
		places := []string{s}
		if !strings.ContainsAny(s, `"'`) {
			places = append(places, "export "+strings.ToUpper(name)+"="+s, `{"`+name+`": "`+s+`"}`, name+" = '"+s+"'", "Use "+s+" for it.")
		}
		found, kept := false, ""
		for _, in := range places {
			match := pattern.FindStringSubmatch(in)
			if match == nil {
				continue
			}
			found = true
			groups := slices.DeleteFunc(match[1:], func(m string) bool { return m == "" })
			secret := append(groups, match[0])[0]
			if redacted, _ := secrets.Redact(in); strings.Contains(redacted, secret) {
				kept = in
			}
		}
		if found {
			all++
		}
		if kept != "" {
			passed = append(passed, kept)
		}
	}
	return passed, all, nil
}

// group returns the first group of an expression, or all of it.
func group(re *syntax.Regexp) *syntax.Regexp {
	if g := firstGroup(re); g != nil {
		return g
	}
	return re
}

func firstGroup(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpCapture {
		return re.Sub[0]
	}
	for _, sub := range re.Sub {
		if g := firstGroup(sub); g != nil {
			return g
		}
	}
	return nil
}

// write appends a text that an expression matches. Of what repeats without bound it has a dozen more than it must.
func write(text *strings.Builder, re *syntax.Regexp, random *rand.Rand) error {
	subs, least, most := re.Sub, 1, 1
	switch re.Op {
	case syntax.OpLiteral:
		text.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		var runes []rune
		for i := 0; i < len(re.Rune); i += 2 {
			for r := max(re.Rune[i], '!'); r <= min(re.Rune[i+1], '~'); r++ {
				runes = append(runes, r)
			}
		}
		if len(runes) == 0 {
			runes = []rune{' '}
		}
		text.WriteRune(runes[random.IntN(len(runes))])
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		text.WriteByte('.')
	case syntax.OpAlternate:
		at := random.IntN(len(subs))
		subs = subs[at : at+1]
	case syntax.OpStar:
		least, most = 0, 12
	case syntax.OpPlus:
		most = 13
	case syntax.OpQuest:
		least = 0
	case syntax.OpRepeat:
		least, most = re.Min, re.Max
		if most < 0 {
			most = least + 12
		}
	case syntax.OpCapture, syntax.OpConcat, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	default:
		return errors.New("an expression that cannot be made")
	}
	for range least + random.IntN(most-least+1) {
		for _, sub := range subs {
			if err := write(text, sub, random); err != nil {
				return err
			}
		}
	}
	return nil
}
