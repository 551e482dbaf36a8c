package lexical

import "errors"

// Flags are the command-line flags of Config.
type Flags struct {
	Scorer           string  `help:"How the lexical leg ranks when neither the request nor the namespace says: bm25 or ts_rank." enum:"bm25,ts_rank" default:"bm25" env:"TRISKELE_SCORER"`
	OrBroadenMinRank float64 `help:"Least ts_rank, 0 to 1, of a memory with only some of a query's words." default:"0.01" env:"TRISKELE_OR_BROADEN_MIN_RANK"`
}

// Validate implements kong's interface.
func (f Flags) Validate() error {
	if !(f.OrBroadenMinRank >= 0 && f.OrBroadenMinRank <= 1) {
		return errors.New("--or-broaden-min-rank must be from 0 to 1")
	}
	return nil
}

// Config returns the configuration.
func (f Flags) Config() Config {
	return Config{Scorer: ScorerByName(f.Scorer), OrBroadenMinRank: f.OrBroadenMinRank}
}
