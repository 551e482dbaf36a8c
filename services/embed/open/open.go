// Package open makes an embedder from what a user writes: one word for the built-in ones, KIND:PLACE for the others.
package open

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/model2vec"
	"github.com/triskele/triskele/services/embed/onnx"
	"github.com/triskele/triskele/services/embed/remote"
	"github.com/triskele/triskele/services/embed/static"
)

// Flags are the command-line flags that choose an embedder. Embed them.
type Flags struct {
	Embedder string `help:"Embedder of the dense leg: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec:FOLDER, onnx:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei:URL#MODEL?dims=N, voyage:MODEL?dims=N, cohere:MODEL?dims=N. Further options, joined by &: shorten=true (have the server make dims), query_prefix, document_prefix, batch, max_bytes, concurrency." default:"builtin" env:"TRISKELE_EMBEDDER" placeholder:"KIND[:PLACE]"`
	Fallback string `name:"embedder-fallback" help:"Embedder of the same model to ask for a query's vector when the first fails." env:"TRISKELE_EMBEDDER_FALLBACK" placeholder:"KIND:PLACE"`
	KeyFile  string `name:"embedder-key-file" help:"File with the key for the embedder's server; else TRISKELE_EMBEDDER_KEY or the provider's own variable is read." env:"TRISKELE_EMBEDDER_KEY_FILE" placeholder:"FILE" type:"path"`
}

// Open returns the embedder that the flags name, and the fallback, which is nil if there is none. getenv is asked for
// keys only.
func (f Flags) Open(getenv func(string) string) (embedder, fallback embed.Embedder, err error) {
	key, err := f.key()
	if err != nil {
		return nil, nil, err
	}
	lookup := func(provider string) string {
		if key != "" {
			return key
		}
		if key := getenv("TRISKELE_EMBEDDER_KEY"); key != "" {
			return key
		}
		return getenv(keyVariables[provider])
	}
	if embedder, err = Open(f.Embedder, lookup); err != nil || f.Fallback == "" {
		return embedder, nil, err
	}
	if fallback, err = Open(f.Fallback, lookup); err != nil {
		return nil, nil, fmt.Errorf("fallback: %w", err)
	}
	return embedder, fallback, nil
}

// keyVariables are where people have their keys already.
var keyVariables = map[string]string{"openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY", "cohere": "CO_API_KEY", "tei": "TEI_API_KEY"}

func (f Flags) key() (string, error) {
	if f.KeyFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.KeyFile)
	if err != nil {
		return "", fmt.Errorf("key of the embedder: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Open returns the embedder that spec names, in one of the forms that the help of Flags.Embedder lists. key returns a provider's key, or "".
func Open(spec string, key func(provider string) string) (embed.Embedder, error) {
	if spec == "builtin" {
		return static.Builtin()
	}
	if name, query, _ := strings.Cut(spec, "?"); name == "hashed" {
		return openHashed(spec, query)
	}
	kind, place, _ := strings.Cut(spec, ":")
	switch kind {
	case "model2vec":
		model, err := model2vec.Load(place)
		if err != nil {
			return nil, fmt.Errorf("embedder %q: %w", spec, err)
		}
		return model, nil
	case "onnx":
		model, err := openONNX(place)
		if err != nil {
			return nil, fmt.Errorf("embedder %q: %w", spec, err)
		}
		return model, nil
	case "openai", "voyage", "cohere", "tei":
		config, err := parseRemote(kind, place)
		if err != nil {
			return nil, fmt.Errorf("embedder %q: %w", spec, err)
		}
		config.Key = key(kind)
		embedder, err := remote.New(config)
		if err != nil {
			return nil, fmt.Errorf("embedder %q: %w", spec, err)
		}
		return embedder, nil
	}
	return nil, fmt.Errorf("embedder %q: %q is unknown: there are builtin, hashed, model2vec, onnx, openai, voyage, cohere and tei", spec, kind)
}

// openHashed reads the options of the hashed embedder: dims, if its vectors are to be shorter.
func openHashed(spec, query string) (embed.Embedder, error) {
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("embedder %q: its options must look like name=value&name=value", spec)
	}
	for name := range options {
		if name != "dims" {
			return nil, fmt.Errorf("embedder %q: hashed has no option %q, only dims", spec, name)
		}
	}
	if !options.Has("dims") {
		return embed.NewHashed(), nil
	}
	dims, err := strconv.Atoi(options.Get("dims"))
	if err != nil {
		return nil, fmt.Errorf("embedder %q: dims must be a number", spec)
	}
	embedder, err := embed.NewFolded(dims)
	if err != nil {
		return nil, fmt.Errorf("embedder %q: %w", spec, err)
	}
	return embedder, nil
}

// openONNX reads FOLDER[?OPTIONS].
func openONNX(place string) (embed.Embedder, error) {
	folder, query, _ := strings.Cut(place, "?")
	given, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	var options onnx.Options
	for name, values := range given {
		value := values[len(values)-1]
		switch name {
		case "library":
			options.Library = value
		case "query_prefix":
			options.QueryPrefix = &value
		case "document_prefix":
			options.DocumentPrefix = &value
		default:
			return nil, fmt.Errorf("option %s is unknown: there are library, query_prefix and document_prefix", name)
		}
	}
	return onnx.Load(folder, options)
}

// parseRemote reads [URL#]MODEL[?OPTIONS]. The options come last, so that a URL is written as it is.
func parseRemote(provider, place string) (remote.Config, error) {
	place, query, _ := strings.Cut(place, "?")
	server, model, found := strings.Cut(place, "#")
	if !found {
		server, model = "", place
	}
	config := remote.Config{Provider: provider, URL: server, Model: model}
	options, err := url.ParseQuery(query)
	if err != nil {
		return config, fmt.Errorf("options: %w", err)
	}
	for name, values := range options {
		value := values[len(values)-1]
		var err error
		switch name {
		case "dims":
			config.Dimensions, err = strconv.Atoi(value)
		case "shorten":
			config.Shorten, err = strconv.ParseBool(value)
		case "batch":
			config.Batch, err = strconv.Atoi(value)
		case "max_bytes":
			config.MaxText, err = strconv.Atoi(value)
		case "concurrency":
			config.Concurrency, err = strconv.Atoi(value)
		case "query_prefix":
			config.QueryPrefix = value
		case "document_prefix":
			config.DocumentPrefix = value
		default:
			return config, fmt.Errorf("option %s is unknown: there are dims, shorten, query_prefix, document_prefix, batch, max_bytes and concurrency", name)
		}
		if err != nil {
			return config, fmt.Errorf("option %s: %q is not a %s", name, value, map[bool]string{true: "truth value", false: "number"}[name == "shorten"])
		}
	}
	return config, nil
}
