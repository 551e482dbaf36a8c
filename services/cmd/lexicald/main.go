// Command lexicald serves the lexical leg: search by words, over PostgreSQL.
package main

import (
	"context"

	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/daemon"
)

func main() {
	var config lexical.Config
	var search replica.Config
	daemon.Main("lexical", "Serves the lexical leg: search by words.", "127.0.0.1:7401",
		func(ctx context.Context, p daemon.Program) (daemon.Service, error) {
			images := p.Images(ctx, search, p.Log)
			return p.Leg(p.Lexical(images, config), images), nil
		}, &config, &search)
}
