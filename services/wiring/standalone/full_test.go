package standalone_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/sqlite"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestStartOnAFullDisk: a system whose database takes no writes starts and answers recalls.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	config := standalone.Config{SQLite: filepath.Join(t.TempDir(), "t.db"), Embedder: embed.NewHashed()}
	before, err := startSystem(t, config)
	if err != nil {
		t.Fatal(err)
	}
	token := remember(t, triskelev1.NewMemoryServiceClient(before.Conn), "The Heron crane is serviced in spring.").GetRevisionToken()
	recall(t, triskelev1.NewRecallServiceClient(before.Conn), "Heron", token, 10*time.Second) // waits for the indexes
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	refuseWrites(t, config.SQLite)

	recalls, _ := start(t, config, config.Embedder)
	resp, legs := recall(t, recalls, "Heron", token, 10*time.Second)
	if len(resp.GetHits()) != 1 || resp.GetHits()[0].GetMemory() == nil {
		t.Errorf("got %v, want the memory", resp)
	}
	if got := legs["dense"].GetState(); got != triskelev1.LegState_LEG_STATE_OK {
		t.Errorf("the dense leg: got %v, want OK", got)
	}
}

// refuseWrites makes all tables of a database fail as a full disk does.
func refuseWrites(t *testing.T, path string) {
	t.Helper()
	db, err := sqlite.Open(path, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Write.QueryContext(t.Context(), `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"INSERT", "UPDATE", "DELETE"} {
			statements = append(statements, fmt.Sprintf(`CREATE TRIGGER "full_%[1]s_%[2]s" BEFORE %[2]s ON "%[1]s" BEGIN SELECT RAISE(ABORT, 'full'); END`, table, verb))
		}
	}
	if err := rows.Err(); err != nil || len(statements) == 0 {
		t.Fatalf("%d statements, %v", len(statements), err)
	}
	for _, statement := range statements {
		if _, err := db.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
