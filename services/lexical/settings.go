package lexical

import (
	"context"
	"errors"
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// Settings tell how a namespace is indexed and searched.
type Settings struct {
	Language string  // one of Languages
	K1       float64 // BM25's k1, 0 to 10: repeated terms count more with a higher k1
	B        float64 // BM25's b, 0 to 1: long memories rank lower with a higher b
	Prefix   bool    // the last word of a query also finds longer words
	// Scorer ranks if the request names no scorer. Unspecified means Config.Scorer.
	Scorer triskelev1.Scorer
}

// Leg is the lexical leg on one engine.
type Leg interface {
	leg.Searcher
	// Settings returns a namespace's settings, or the default ones if it has none.
	Settings(ctx context.Context, namespace string) (Settings, error)
	// Set changes a namespace's settings. If the language changes, it indexes all memories again. The namespace need not
	// exist.
	Set(ctx context.Context, namespace string, s Settings) error
	// Reindex indexes a namespace's memories again, by the rules of this program and the current settings.
	Reindex(ctx context.Context, namespace string) error
}

// DefaultSettings returns the settings of a namespace without its own. docs/adr/0010-lexical-scorers.md justifies k1 and b.
func DefaultSettings() Settings { return Settings{Language: "english", K1: 0.9, B: 0.4} }

// Check returns an error if a setting is invalid.
func (s Settings) Check() error {
	if _, known := languages[s.Language]; !known {
		return fmt.Errorf("language must be one of %s", strings.Join(Languages(), ", "))
	}
	if !(s.K1 >= 0 && s.K1 <= 10) {
		return errors.New("k1 must be from 0 to 10")
	}
	if !(s.B >= 0 && s.B <= 1) {
		return errors.New("b must be from 0 to 1")
	}
	return nil
}

// language returns the rules for words. A language that only a newer program knows gets no stemmer.
func (s Settings) language() language { return languages[s.Language] }
