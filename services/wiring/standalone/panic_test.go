package standalone_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// panicking is an embedder that answers queries, and panics at documents.
type panicking struct{ embed.Embedder }

func (panicking) EmbedDocuments(_ context.Context, texts []string) ([][]float32, error) {
	panic("cannot embed " + strings.Join(texts, " "))
}

// lines are those of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// TestPanicsBesideCalls: every task that the embedder makes panic is in the log, without text, and recalls go on.
func TestPanicsBesideCalls(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		config.Embedder, config.Gateway = panicking{embed.NewHashed()}, gateway.DefaultConfig()
		config.Gateway.Budget.Max = patience
		for run, tasks := range [][]string{{`task="index graph"`, `task="index dense"`}, {`task="refresh the graph"`}} { // names lack vectors when it starts again
			process, err := telemetry.Start(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			log := make(lines, 10_000)
			system, err := standalone.Start(context.Background(), config, process, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if run == 0 {
				remember(t, triskelev1.NewMemoryServiceClient(system.Conn), "The Heron crane is serviced in spring.")
			}
			deadline := time.After(30 * time.Second)
			for missing := len(tasks); missing > 0; {
				select {
				case line := <-log:
					if strings.Contains(line, "Heron") {
						t.Errorf("got %q in the log, want no text", line)
					}
					for i, task := range tasks {
						if task != "" && strings.Contains(line, "msg=panic") && strings.Contains(line, task) {
							tasks[i] = ""
							missing--
						}
					}
				case <-deadline:
					t.Fatalf("run %d: no panic in 30 s of %q", run, tasks)
				}
			}
			resp, err := triskelev1.NewRecallServiceClient(system.Conn).Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "Heron crane", Budget: durationpb.New(patience)})
			if err != nil || len(resp.GetHits()) != 1 {
				t.Errorf("run %d: got %v, %v, want a hit", run, resp, err)
			}
			if err := system.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
