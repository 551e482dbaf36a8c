// Package open makes an embedder from a command-line value: one word for a built-in embedder, KIND:PLACE for the others. It
// is the only package that imports all kinds.
package open

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/triskele/triskele/fuser/platform/options"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/model2vec"
	"github.com/triskele/triskele/services/embed/remote"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/embed/transformer"
)

// Flags are the command-line flags that choose an embedder, for embedding in a program's flags.
type Flags struct {
	Embedder string `help:"Embedding model: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16, 32, 64, 128 or 256 dimensions), model2vec:FOLDER, transformer:FOLDER (a BERT model of sentence-transformers, inside the process), openai:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei:URL#MODEL?dims=N, voyage:MODEL?dims=N, cohere:MODEL?dims=N. Further options, joined by &: shorten=true (have the server make dims), query_prefix, document_prefix, batch, max_bytes, concurrency." default:"builtin" env:"TRISKELE_EMBEDDER" placeholder:"KIND[:PLACE]"`
	Fallback string `name:"embedder-fallback" help:"Embedder of the same model to ask for a query's vector when the first fails." env:"TRISKELE_EMBEDDER_FALLBACK" placeholder:"KIND:PLACE"`
	KeyFile  string `name:"embedder-key-file" help:"File with the key for the embedder's server; else TRISKELE_EMBEDDER_KEY or the provider's own variable is read." env:"TRISKELE_EMBEDDER_KEY_FILE" placeholder:"FILE" type:"path"`
}

// Open returns the embedder of the flags, and the fallback or nil. getenv is used for keys only.
func (f Flags) Open(getenv func(string) string) (embedder, fallback embed.Embedder, err error) {
	defer func() { err = settings.Wrong(err) }()
	key, err := settings.Secret(f.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--embedder-key-file: %w", err)
	}
	lookup := func(provider string) string {
		return cmp.Or(key, getenv("TRISKELE_EMBEDDER_KEY"), getenv(keyVariables[provider]))
	}
	if embedder, err = Open(f.Embedder, lookup); err != nil || f.Fallback == "" {
		return embedder, nil, err
	}
	if fallback, err = Open(f.Fallback, lookup); err != nil {
		return nil, nil, fmt.Errorf("fallback: %w", err)
	}
	return embedder, fallback, nil
}

// keyVariables are the usual environment variables of the providers' keys.
var keyVariables = map[string]string{"openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY", "cohere": "CO_API_KEY", "tei": "TEI_API_KEY"}

// Open returns the embedder that spec names. The help of Flags.Embedder lists the forms of spec. key returns a provider's
// key, or "".
func Open(spec string, key func(provider string) string) (embedder embed.Embedder, err error) {
	kind, place, _ := strings.Cut(spec, ":")
	name, query, _ := strings.Cut(spec, "?")
	switch {
	case spec == "builtin":
		return static.Builtin()
	case name == "hashed":
		embedder, err = openHashed(query)
	case kind == "model2vec":
		embedder, err = model2vec.Load(place)
	case kind == "transformer":
		embedder, err = openTransformer(place)
	case keyVariables[kind] != "":
		embedder, err = openRemote(kind, place, key(kind))
	default:
		err = fmt.Errorf("%q is unknown: there are builtin, hashed, model2vec, transformer, openai, voyage, cohere and tei", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("embedder %q: %w", spec, err)
	}
	return embedder, nil
}

// openHashed reads the option of the hashed embedder, dims.
func openHashed(query string) (embed.Embedder, error) {
	hashed := embed.NewHashed()
	dims := hashed.Model().Dimensions
	if err := options.Set(query, map[string]options.Option{"dims": options.Parsed(&dims, strconv.Atoi)}); err != nil {
		return nil, err
	}
	return embed.NewFolded(dims)
}

// openTransformer reads FOLDER[?OPTIONS].
func openTransformer(place string) (embed.Embedder, error) {
	folder, query, _ := strings.Cut(place, "?")
	var prompts transformer.Options
	given := func(text string) (*string, error) { return &text, nil }
	if err := options.Set(query, map[string]options.Option{
		"query_prefix":    options.Parsed(&prompts.QueryPrefix, given),
		"document_prefix": options.Parsed(&prompts.DocumentPrefix, given),
	}); err != nil {
		return nil, err
	}
	return transformer.Load(folder, prompts)
}

// openRemote reads [URL#]MODEL[?OPTIONS]. The options come last, so that URLs need no escapes.
func openRemote(provider, place, key string) (embed.Embedder, error) {
	place, query, _ := strings.Cut(place, "?")
	server, model, found := strings.Cut(place, "#")
	switch {
	case !found && strings.Contains(place, "//"): // as a model's name, the texts would go to the provider
		return nil, fmt.Errorf("name the model after the server's URL and before options: %s:http://HOST:PORT#MODEL", provider)
	case !found:
		server, model = "", place
	}
	if key == "" && server == "" && provider != "tei" {
		return nil, fmt.Errorf("%s needs a key: give --embedder-key-file, TRISKELE_EMBEDDER_KEY or %s", provider, keyVariables[provider])
	}
	config := remote.Config{Provider: provider, URL: server, Model: model, Key: key}
	text := func(text string) (string, error) { return text, nil }
	if err := options.Set(query, map[string]options.Option{
		"dims":            options.Parsed(&config.Dimensions, strconv.Atoi),
		"shorten":         options.Parsed(&config.Shorten, strconv.ParseBool),
		"batch":           options.Parsed(&config.Batch, strconv.Atoi),
		"max_bytes":       options.Parsed(&config.MaxText, strconv.Atoi),
		"concurrency":     options.Parsed(&config.Concurrency, strconv.Atoi),
		"query_prefix":    options.Parsed(&config.QueryPrefix, text),
		"document_prefix": options.Parsed(&config.DocumentPrefix, text),
	}); err != nil {
		return nil, err
	}
	return remote.New(config)
}
