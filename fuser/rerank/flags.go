package rerank

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/settings"
)

// Flags are the command-line flags that choose a reranker. Embed them.
type Flags struct {
	Server  string        `name:"reranker" help:"Reranker that recalls may ask for: builtin (an English cross-encoder in the program), none, transformer:FOLDER (one inside this process), cohere:MODEL, jina:[URL#]MODEL (llama.cpp, vLLM), voyage:MODEL or tei:URL. Servers receive queries and the texts of memories that are not sensitive." default:"builtin" env:"TRISKELE_RERANKER" placeholder:"KIND:PLACE"`
	KeyFile string        `name:"reranker-key-file" help:"File with the key for the reranker's server. If not given, TRISKELE_RERANKER_KEY or the provider's own variable is read." env:"TRISKELE_RERANKER_KEY_FILE" placeholder:"FILE" type:"path"`
	Top     int           `name:"reranker-top" help:"Number of best memories to rerank, 2 to 100." default:"10" env:"TRISKELE_RERANKER_TOP"`
	Cap     time.Duration `name:"reranker-cap" help:"Maximum time of a request; 0 for all that the budget leaves." default:"0" env:"TRISKELE_RERANKER_CAP"`
	Min     time.Duration `name:"reranker-min" help:"Minimum time of a request. With less time left, the reranker is not asked." default:"10ms" env:"TRISKELE_RERANKER_MIN"`
	Limit   int           `name:"reranker-limit" help:"Maximum concurrent requests, 1 or more; further requests wait." default:"8" env:"TRISKELE_RERANKER_LIMIT"`
	MaxText int           `name:"reranker-max-bytes" help:"Maximum bytes of each text that are read or sent." default:"8192" env:"TRISKELE_RERANKER_MAX_BYTES"`
}

// Default returns the reranking stage of a program without flags for it.
func Default() gateway.RerankConfig {
	return builtin(gateway.RerankConfig{Top: 10, Limit: 8, Budget: budget.Leg{Min: 10 * time.Millisecond, Share: 1}}, 8192)
}

// builtin has the built-in model do a stage's work.
func builtin(stage gateway.RerankConfig, maxText int) gateway.RerankConfig {
	stage.Reranker, stage.Model, stage.Local, stage.Answers = NewBuiltin(maxText), BuiltinName, true, true
	return stage
}

// Open returns the reranking stage, the zero value if there is to be none. It asks getenv for keys only.
func (f Flags) Open(getenv func(string) string) (stage gateway.RerankConfig, err error) {
	if f.Server == "none" || f.Server == "" {
		return stage, nil
	}
	defer func() {
		if err != nil {
			stage, err = gateway.RerankConfig{}, settings.Wrong(fmt.Errorf("reranker: %w", err))
		}
	}()
	stage = gateway.RerankConfig{Top: f.Top, Limit: f.Limit, Budget: budget.Leg{Cap: f.Cap, Min: f.Min, Share: 1}}
	if f.Server == "builtin" {
		if f.MaxText < 1 {
			return stage, tooShort(f.MaxText)
		}
		return builtin(stage, f.MaxText), nil
	}
	provider, place, _ := strings.Cut(f.Server, ":")
	if provider == "transformer" {
		stage.Model, stage.Local = provider+"/"+filepath.Base(place), true
		stage.Reranker, err = Load(place, f.MaxText)
		return stage, err
	}
	server, model, found := strings.Cut(place, "#")
	own := providers[provider]
	switch {
	case found || provider == "tei":
	case own.url != "" && strings.Contains(place, "//"): // as a model's name, the texts would go to the provider
		return stage, fmt.Errorf("name the model after the server's URL: %s:http://HOST:PORT#MODEL", provider)
	default:
		server, model = "", place
	}
	key, err := settings.Secret(f.KeyFile, getenv("TRISKELE_RERANKER_KEY"), getenv(own.key))
	if err != nil {
		return stage, fmt.Errorf("read its key: %w", err)
	}
	if key == "" && server == "" && own.url != "" {
		return stage, fmt.Errorf("%s needs a key: give --reranker-key-file, TRISKELE_RERANKER_KEY or %s", provider, own.key)
	}
	if stage.Model = provider; model != "" {
		stage.Model += "/" + model
	}
	stage.Reranker, err = New(Config{Provider: provider, URL: server, Model: model, Key: key, MaxText: f.MaxText, Idle: f.Limit})
	return stage, err
}
