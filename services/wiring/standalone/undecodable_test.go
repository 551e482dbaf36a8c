package standalone_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// corrupt gives a memory links that nobody can read.
func corrupt(t *testing.T, config standalone.Config, content string) {
	t.Helper()
	const links = `[{"target": "nobody"}]`
	if config.Postgres != "" {
		conn, err := pgx.Connect(t.Context(), config.Postgres)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(t.Context(), `UPDATE memory.memories SET links = $1 WHERE content = $2`, links, content); err != nil {
			t.Fatal(err)
		}
		return
	}
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(config.SQLite, process.Service("test"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Write.ExecContext(t.Context(), `UPDATE memories SET links = ? WHERE content = ?`, links, content); err != nil {
		t.Fatal(err)
	}
}

// TestRecallTellsOfContentsItCannotRead: a hit whose memory cannot be decoded stays a hit.
func TestRecallTellsOfContentsItCannotRead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, memory := start(t, config, embed.NewHashed())
		remember(t, memory, "The Heron crane is serviced in spring.")
		bad := remember(t, memory, "The Heron crane is sold in autumn.")
		if resp, _ := recall(t, recalls, "Heron crane", bad.GetRevisionToken(), 10*time.Second); resp.GetDegraded() || len(resp.GetHits()) != 2 {
			t.Fatal(resp)
		}
		corrupt(t, config, bad.GetMemory().GetContent())
		resp, _ := recall(t, recalls, "Heron crane", bad.GetRevisionToken(), 10*time.Second)
		if len(resp.GetHits()) != 2 || !strings.Contains(resp.GetDegradedReason(), "the contents of hits in n could not be fetched") {
			t.Errorf("%v", resp)
		}
	})
}
