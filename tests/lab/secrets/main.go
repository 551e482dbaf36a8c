// Command secrets makes secrets by the rules of a maintained detector, gitleaks, and says which of them services/agents/secrets lets pass.
// The detector's rules are read from its module, which is no part of this project. Each secret stands where people leave one: after a
// name in a file of settings, in JSON, and in a sentence. Only those count that the detector finds, too.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
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

// detector is the version of the rules.
const detector = "github.com/zricethezav/gitleaks/v8@v8.30.1"

// rule is one of the detector's. The secret is the first group of its expression, or all of it.
type rule struct {
	ID, Regex string
	Entropy   float64 // least, in bits a character
}

func main() {
	samples := flag.Int("samples", 20, "secrets for each rule")
	least := flag.Float64("least", 0.98, "least share of the rules that are followed; fewer are an error")
	verbose := flag.Bool("v", false, "show a secret that passes for each rule that is not followed")
	flag.Parse()
	if err := run(*samples, *least, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(samples int, least float64, verbose bool) error {
	rules, err := download()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	tried, followed := 0, 0
	for _, r := range rules {
		found, all, passed, err := r.try(samples, random)
		if err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		switch {
		case all == 0:
			fmt.Printf("%-45s no sample\n", r.ID)
			continue
		case found == all:
			followed++
		default:
			fmt.Printf("%-45s %d of %d found", r.ID, found, all)
			if verbose {
				fmt.Printf("  %.200q", passed)
			}
			fmt.Println()
		}
		tried++
	}
	fmt.Printf("%d of %d rules are followed\n", followed, tried)
	if float64(followed) < least*float64(tried) {
		return fmt.Errorf("fewer than %.0f %% of the rules are followed", 100*least)
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

// notSecret are the rules for what is public: a client's id, a key that browsers are given.
var notSecret = regexp.MustCompile(`-id$|-pub(lic)?-`)

// unlike are the rules whose samples are not as what they look for: a token holds JSON or a known word in base64, a key is base64. The last
// rule takes each commit's hash for a token.
var unlike = []string{"jwt", "artifactory-reference-token", "private-key", "sourcegraph-access-token"}

// try makes secrets and returns how many are redacted in all of their places, of how many, and a text in which one is not.
func (r rule) try(samples int, random *rand.Rand) (found, all int, passed string, err error) {
	if r.Regex == "" || notSecret.MatchString(r.ID) || slices.Contains(unlike, r.ID) { // the first is about names of files
		return 0, 0, "", nil
	}
	pattern, err := regexp.Compile(r.Regex)
	if err != nil {
		return 0, 0, "", err
	}
	tree, err := syntax.Parse(strings.NewReplacer("(?i)", "", "(?i:", "(?:").Replace(r.Regex), syntax.Perl) // samples have the case in which the rule is written
	if err != nil {
		return 0, 0, "", err
	}
	secret := group(tree)
	words := strings.Split(r.ID, "-")
	for range samples {
		var text strings.Builder
		if err := write(&text, secret, random); err != nil {
			return 0, 0, "", err
		}
		s := text.String()
		here, missed := 0, ""
		for _, in := range []string{
			"export " + strings.ToUpper(strings.Join(words, "_")) + "=" + s,
			`{"` + strings.Join(words, "_") + `": "` + s + `"}`,
			strings.Join(words, "_") + " = '" + s + "'",
			"Use " + s + " for it.",
			s,
		} {
			match := pattern.FindStringSubmatch(in)
			if match == nil || strings.ContainsAny(s, `"'`) && in != s {
				continue
			}
			core := match[0]
			if i := slices.IndexFunc(match[1:], func(m string) bool { return m != "" }); i >= 0 {
				core = match[1+i]
			}
			if entropy(core) < r.Entropy {
				continue
			}
			here++
			if redacted, _ := secrets.Redact(in); strings.Contains(redacted, core) {
				missed = in
			}
		}
		switch {
		case here == 0:
			continue
		case missed == "":
			found++
		default:
			passed = missed
		}
		all++
	}
	return found, all, passed, nil
}

// group returns the first group of an expression, or all of it.
func group(re *syntax.Regexp) *syntax.Regexp {
	var find func(*syntax.Regexp) *syntax.Regexp
	find = func(re *syntax.Regexp) *syntax.Regexp {
		if re.Op == syntax.OpCapture {
			return re.Sub[0]
		}
		for _, sub := range re.Sub {
			if g := find(sub); g != nil {
				return g
			}
		}
		return nil
	}
	if g := find(re); g != nil {
		return g
	}
	return re
}

// write appends a text that an expression matches. Of what repeats without bound it has a dozen more than it must.
func write(text *strings.Builder, re *syntax.Regexp, random *rand.Rand) error {
	repeat := func(least, most int) error {
		if most < 0 {
			most = least + 12
		}
		for range least + random.IntN(most-least+1) {
			if err := write(text, re.Sub[0], random); err != nil {
				return err
			}
		}
		return nil
	}
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
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			if err := write(text, sub, random); err != nil {
				return err
			}
		}
	case syntax.OpAlternate:
		return write(text, re.Sub[random.IntN(len(re.Sub))], random)
	case syntax.OpStar:
		return repeat(0, -1)
	case syntax.OpPlus:
		return repeat(1, -1)
	case syntax.OpQuest:
		return repeat(0, 1)
	case syntax.OpRepeat:
		return repeat(re.Min, re.Max)
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	default:
		return errors.New("an expression that cannot be made")
	}
	return nil
}

// entropy returns Shannon's entropy of a text's characters, in bits each.
func entropy(text string) float64 {
	count := map[rune]float64{}
	for _, r := range text {
		count[r]++
	}
	bits := 0.0
	for _, n := range count {
		p := n / float64(len(text))
		bits -= p * math.Log2(p)
	}
	return bits
}
