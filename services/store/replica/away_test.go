package replica

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/triskele/triskele/services/store/sqldb"
)

// TestNodeAway: a server that says that a node behind it is away answers, so namespaces of other nodes are asked about.
func TestNodeAway(t *testing.T) {
	s := New(t.Context(), sqldb.Store{}, nil, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
	s.lost(t.Context(), errors.New("connection refused"))
	if s.Concern() == "" {
		t.Error("got no concern while the server does not answer")
	}
	s.lost(t.Context(), &pgconn.PgError{Code: "08006"})
	if got := s.Concern(); got != "" {
		t.Errorf("got %q while a node is away, want no concern", got)
	}
}
