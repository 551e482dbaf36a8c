// Command lexicald serves the lexical leg: search by words, over PostgreSQL.
package main

import (
	"context"
	"log/slog"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/daemon"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
)

type flags struct {
	Scorer string `help:"How to rank when a request doesn't say: bm25 or ts_rank." enum:"bm25,ts_rank" default:"bm25" env:"TRISKELE_SCORER"`
}

func main() {
	var f flags
	daemon.Main("lexical", "Serves the lexical leg: search by words.", "127.0.0.1:7401", "lexical",
		func(_ context.Context, b backend.Backend, tel *telemetry.Service, log *slog.Logger) (daemon.Service, error) {
			config := lexical.DefaultConfig()
			config.Scorer = lexical.ScorerByName(f.Scorer)
			return daemon.Service{
				Register: func(s *rpc.Server) {
					triskelev1.RegisterLegServiceServer(s, leg.NewServer(b.Lexical(config), tel, log))
				},
				Work: func(ctx context.Context) { b.FoldLexical(ctx, log) },
			}, nil
		}, &f)
}
