// Package open makes an embedder from what a user writes on a command line.
package open

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/embed"
)

// Flags are the command-line flags that choose an embedder. Embed them.
type Flags struct {
	Embedder string `help:"Embedder of the dense leg: hashed (spelling only), or hashed?dims=N for vectors of 16, 32, 64 or 128 dimensions instead of 256." default:"hashed" env:"TRISKELE_EMBEDDER" placeholder:"KIND"`
}

// Open returns the embedder that the flags name.
func (f Flags) Open() (embed.Embedder, error) { return Open(f.Embedder) }

// Open returns the embedder that spec names.
func Open(spec string) (embed.Embedder, error) {
	kind, query, _ := strings.Cut(spec, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("embedder %q: its options must look like name=value&name=value", spec)
	}
	if kind != "hashed" {
		return nil, fmt.Errorf("embedder %q: there is no such kind, only hashed", spec)
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
