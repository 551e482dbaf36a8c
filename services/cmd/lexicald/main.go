// Command lexicald serves the lexical leg: search by words, over PostgreSQL.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/store/replica"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/daemon"
)

func main() {
	var config lexical.Config
	var search replica.Config
	daemon.Main("lexical", "Serves the lexical leg: search by words.", "127.0.0.1:7401", "lexical",
		func(ctx context.Context, b *backend.Backend, _ auth.TLS, tel *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			images := b.Images(ctx, search, log)
			return daemon.Leg(b, b.Lexical(images, config), images, tel, log), nil
		}, &config, &search)
}
