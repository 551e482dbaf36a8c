package standalone_test

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// TestStopLetsRecallsFinish: a recall that runs when the system is stopped goes on to call services of the process, and its caller gets
// a whole answer before the system is closed.
func TestStopLetsRecallsFinish(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T, *standalone.System) grpc.ClientConnInterface{
		"inside": func(_ *testing.T, s *standalone.System) grpc.ClientConnInterface { return s.Conn },
		"outside": func(t *testing.T, s *standalone.System) grpc.ClientConnInterface {
			c, err := client.Dial(serveOutside(t, s))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c.Conn()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			searching := make(chan struct{}, 10)
			system, err := startSystem(t, standalone.Config{
				SQLite: filepath.Join(t.TempDir(), "test.db"), Embedder: embed.NewHashed(),
				Delay: func(leg string) time.Duration {
					if leg != "dense" {
						return 0
					}
					searching <- struct{}{}
					return 300 * time.Millisecond
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			conn := connect(t, system)
			remember(t, triskelev1.NewMemoryServiceClient(conn), "The Heron crane is serviced in spring.")
			closed := make(chan error, 1)
			go func() {
				<-searching
				closed <- system.Close()
			}()
			resp, err := triskelev1.NewRecallServiceClient(conn).Recall(t.Context(), &triskelev1.RecallRequest{
				Namespaces: []string{"n"}, Query: "Heron crane", Budget: durationpb.New(patience),
			})
			if err != nil || resp.GetDegraded() || len(resp.GetHits()) != 1 || resp.GetHits()[0].GetMemory() == nil {
				t.Errorf("got %v, %v, want one hit with its contents", resp, err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	}
}
