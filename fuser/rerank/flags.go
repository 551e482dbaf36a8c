package rerank

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/budget"
	"github.com/triskele/triskele/fuser/gateway"
)

// Flags are the command-line flags that choose a reranker. Embed them.
type Flags struct {
	Server  string        `name:"reranker" help:"Reranker that recalls may ask for: cohere:MODEL, jina:[URL#]MODEL (llama.cpp, vLLM), voyage:MODEL or tei:URL. It is sent queries and the texts of memories, never of sensitive ones." env:"TRISKELE_RERANKER" placeholder:"KIND:PLACE"`
	KeyFile string        `name:"reranker-key-file" help:"File with the key for the reranker's server; else TRISKELE_RERANKER_KEY or the provider's own variable is read." env:"TRISKELE_RERANKER_KEY_FILE" placeholder:"FILE" type:"path"`
	Top     int           `name:"reranker-top" help:"How many of the best memories it puts in order, 2 to 100." default:"30" env:"TRISKELE_RERANKER_TOP"`
	Cap     time.Duration `name:"reranker-cap" help:"At most this long; 0 for what the budget leaves." default:"0" env:"TRISKELE_RERANKER_CAP"`
	Min     time.Duration `name:"reranker-min" help:"With less time it is not asked." default:"10ms" env:"TRISKELE_RERANKER_MIN"`
	Limit   int           `name:"reranker-limit" help:"Requests at a time, 1 or more; others wait." default:"8" env:"TRISKELE_RERANKER_LIMIT"`
	MaxText int           `name:"reranker-max-bytes" help:"Bytes of a text that are sent." default:"8192" env:"TRISKELE_RERANKER_MAX_BYTES"`
}

// Open returns the stage that the flags describe, the zero value if they name no server. getenv is asked for keys only.
func (f Flags) Open(getenv func(string) string) (gateway.RerankConfig, error) {
	if f.Server == "" {
		return gateway.RerankConfig{}, nil
	}
	provider, place, _ := strings.Cut(f.Server, ":")
	server, model, found := strings.Cut(place, "#")
	if !found && provider != "tei" {
		server, model = "", place
	}
	key, err := f.key(getenv, provider)
	if err != nil {
		return gateway.RerankConfig{}, err
	}
	client, err := New(Config{Provider: provider, URL: server, Model: model, Key: key, MaxText: f.MaxText, Idle: f.Limit})
	if err != nil {
		return gateway.RerankConfig{}, fmt.Errorf("reranker: %w", err)
	}
	name := provider
	if model != "" {
		name += "/" + model
	}
	return gateway.RerankConfig{
		Reranker: client, Model: name, Top: f.Top, Limit: f.Limit, Budget: budget.Leg{Cap: f.Cap, Min: f.Min, Share: 1},
	}, nil
}

// key is that of the file, else of our variable, else of the provider's.
func (f Flags) key(getenv func(string) string, provider string) (string, error) {
	if f.KeyFile != "" {
		text, err := os.ReadFile(f.KeyFile)
		if err != nil {
			return "", fmt.Errorf("key of the reranker: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	if key := getenv("TRISKELE_RERANKER_KEY"); key != "" {
		return key, nil
	}
	return getenv(shapes[provider].key), nil
}
