package lexical

import (
	"context"
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/leg"
)

// Settings say how a namespace is indexed and searched.
type Settings struct {
	Language string  // one of Languages
	K1       float64 // how slowly repetition saturates, 0 to 10
	B        float64 // how much length counts against a memory, 0 to 1
	Prefix   bool    // the last word of a query also finds longer words
	// Scorer is what a request gets that asks for none; unspecified means as configured.
	Scorer triskelev1.Scorer
}

// Leg is the lexical leg on one engine.
type Leg interface {
	leg.Searcher
	// Settings returns a namespace's settings, the default ones if it has none of its own.
	Settings(ctx context.Context, namespace string) (Settings, error)
	// Set changes a namespace's settings, and indexes its memories again if their language changed. The namespace need
	// not exist yet.
	Set(ctx context.Context, namespace string, s Settings) error
	// Reindex indexes a namespace's memories again, as the present program and settings would have it.
	Reindex(ctx context.Context, namespace string) error
}

// DefaultSettings hold for a namespace without its own; docs/adr/0010-lexical-scorers.md says where k1 and b come from.
func DefaultSettings() Settings { return Settings{Language: "english", K1: 0.9, B: 0.4} }

// Check returns an error that says what is wrong with the settings.
func (s Settings) Check() error {
	if _, known := languages[s.Language]; !known {
		return fmt.Errorf("language must be one of %s", strings.Join(Languages(), ", "))
	}
	if !(s.K1 >= 0 && s.K1 <= 10) {
		return fmt.Errorf("k1 must be from 0 to 10")
	}
	if !(s.B >= 0 && s.B <= 1) {
		return fmt.Errorf("b must be from 0 to 1")
	}
	return nil
}

// language returns the rules for the namespace's words; for a name that a newer program wrote, those without a stemmer.
func (s Settings) language() language { return languages[s.Language] }
