package standalone_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// hanging is an embedder that answers queries, and documents when it is let go, or never.
type hanging struct {
	embed.Embedder
	release chan struct{}
}

func (h hanging) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	select {
	case <-h.release:
		return h.Embedder.EmbedDocuments(ctx, texts)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// onBoth runs a test on each engine.
func onBoth(t *testing.T, test func(*testing.T, standalone.Config)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, standalone.Config{Postgres: pgtest.New(t)})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, standalone.Config{SQLite: filepath.Join(t.TempDir(), "test.db")})
	})
}

// start runs all services with an embedder and returns the clients of the gateway.
func start(t testing.TB, config standalone.Config, embedder embed.Embedder) (triskelev1.RecallServiceClient, triskelev1.MemoryServiceClient) {
	t.Helper()
	config.Embedder = embedder
	system, err := startSystem(t, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	})
	return triskelev1.NewRecallServiceClient(system.Conn), triskelev1.NewMemoryServiceClient(system.Conn)
}

// patience is the budget of a recall that must not be cut short by a machine that has other work.
const patience = time.Minute

// startSystem starts all services with the default configuration of a gateway but for its legs, and patience.
func startSystem(t testing.TB, config standalone.Config) (*standalone.System, error) {
	t.Helper()
	given := config.Gateway
	config.Gateway = gateway.DefaultConfig()
	config.Gateway.Legs = given.Legs
	config.Gateway.Budget.Max = patience
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return standalone.Start(context.Background(), config, process, storetest.Log())
}

func remember(t *testing.T, memory triskelev1.MemoryServiceClient, content string) *triskelev1.RememberResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, err := memory.Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: content}})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// recall asks, with a generous budget, for what is known after a write.
func recall(t *testing.T, client triskelev1.RecallServiceClient, query, atLeast string, budget time.Duration) (*triskelev1.RecallResponse, map[string]*triskelev1.LegReport) {
	t.Helper()
	resp, err := client.Recall(t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{"n"}, Query: query, AtLeast: []string{atLeast}, Budget: durationpb.New(budget), Explain: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	legs := map[string]*triskelev1.LegReport{}
	for _, l := range resp.GetLegs() {
		legs[l.GetLeg()] = l
	}
	return resp, legs
}

// TestAtLeastFindsWhatWasWritten asks right after each write: every leg knows of it.
func TestAtLeastFindsWhatWasWritten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, memory := start(t, config, embed.NewHashed())
		for range 10 {
			stored := remember(t, memory, "The Heron crane is serviced in spring.")
			resp, legs := recall(t, recalls, "when is the Heron crane serviced", stored.GetRevisionToken(), patience)
			if resp.GetDegraded() || legs["dense"].GetStale() || legs["graph"].GetStale() {
				t.Fatalf("stale: %v", resp)
			}
			found := false
			for _, hit := range resp.GetHits() {
				found = found || hit.GetId() == stored.GetMemory().GetId() && len(hit.GetContributions()) == 3
			}
			if !found {
				t.Fatalf("not found by all legs: %v", resp)
			}
			if _, err := memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "n", Ids: []string{stored.GetMemory().GetId()}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAtLeastOfNoWrite asks with a token that no write of this database has: another's, or one from before a restore.
func TestAtLeastOfNoWrite(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		recalls, memory := start(t, config, embed.NewHashed())
		remember(t, memory, "The Heron crane is serviced in spring.")
		foreign := revision.Token{Namespace: "n", Sequence: 1000}.String()
		_, err := recalls.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "crane", AtLeast: []string{foreign}, Budget: durationpb.New(10 * time.Second)})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `at_least: must be a revision token that this database gave for namespace "n"`) {
			t.Error(err)
		}
	})
}

// TestHangingEmbedder stores and recalls while nothing can be embedded: both answer, the answer says what it lacks, and
// when the embedder is back nothing was lost.
func TestHangingEmbedder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		embedder := hanging{embed.NewHashed(), make(chan struct{})}
		recalls, memory := start(t, config, embedder)
		var last *triskelev1.RememberResponse
		for range 20 {
			last = remember(t, memory, "The Heron crane is serviced in spring.")
		}
		resp, legs := recall(t, recalls, "when is the Heron crane serviced", last.GetRevisionToken(), 3*time.Second)
		if len(resp.GetHits()) != 10 || legs["lexical"].GetReturned() != 20 || legs["lexical"].GetStale() || legs["lexical"].GetBehind() != 0 {
			t.Errorf("lexical leg: %v", resp)
		}
		if !legs["dense"].GetStale() || legs["dense"].GetBehind() != 20 || !resp.GetDegraded() ||
			!strings.Contains(resp.GetDegradedReason(), "the dense leg does not know of the latest writes to n yet (20 behind)") {
			t.Errorf("dense leg: %v, %s", legs["dense"], resp.GetDegradedReason())
		}
		close(embedder.release)
		resp, legs = recall(t, recalls, "when is the Heron crane serviced", last.GetRevisionToken(), patience)
		if resp.GetDegraded() || legs["dense"].GetStale() || legs["dense"].GetReturned() != 20 {
			t.Errorf("when the embedder is back: %v", resp)
		}
	})
}
