package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// up is everything in one process, started again under other flags.
type up struct {
	*system
	database []string // flags
}

// launch starts a command of triskele on the database.
func (u up) launch(args ...string) *process {
	u.t.Helper()
	p := &process{name: "triskele", args: append(args, u.database...)}
	p.cmd = exec.Command(filepath.Join(programs, "triskele"), p.args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if u.t.Failed() {
			u.t.Logf("log of %v:\n%s", p.args, last(p.log.String(), 4000))
		}
	})
	return p
}

// serve starts the services with more flags and returns when they serve.
func (u up) serve(args ...string) {
	u.t.Helper()
	address := freeAddress(u.t)
	p := u.launch(append([]string{"up", "--listen", address}, args...)...)
	p.address = address
	u.processes["triskele"] = p
	u.awaitServing("triskele")
	conn, err := rpc.Dial(address, u.tel)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = conn.Close() })
	u.recall, u.memory = triskelev1.NewRecallServiceClient(conn), triskelev1.NewMemoryServiceClient(conn)
}

// command runs a command to its end and returns what it printed.
func (u up) command(args ...string) (string, error) {
	p := u.launch(args...)
	err := p.cmd.Wait()
	return p.log.String(), err
}

func (u up) must(args ...string) string {
	u.t.Helper()
	out, err := u.command(args...)
	if err != nil {
		u.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// vectors returns how many vectors the model with a status has.
func (u up) vectors(status string) (n int64) {
	u.t.Helper()
	var models []struct {
		Status  string
		Vectors int64
	}
	if err := json.Unmarshal([]byte(u.must("models", "--json")), &models); err != nil {
		u.t.Fatal(err)
	}
	n = -1
	for _, m := range models {
		if m.Status == status {
			n = m.Vectors
		}
	}
	return n
}

// A database changes to vectors of another length while one process answers, the re-embedding is killed on the way, and
// nothing is lost.
func TestReembedIsKilledAndResumed(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func() []string{
		"sqlite":   func() []string { return []string{"--sqlite", filepath.Join(t.TempDir(), "test.db")} },
		"postgres": func() []string { return []string{"--postgres", pgtest.New(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tel, err := telemetry.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			u := up{&system{t: t, processes: map[string]*process{}, tel: tel.Service("client")}, database()}
			u.serve("--embedder", "hashed")
			const memories = 300
			for i := range memories {
				u.remember(&triskelev1.Memory{Namespace: "n", Content: fmt.Sprintf("backup %d is on the host heron-%d", i, i%7)})
			}
			u.awaitIndexes("n")

			// From here on somebody recalls and remembers.
			var load sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			defer load.Wait()
			defer stop()
			added := 0
			load.Go(func() {
				for ctx.Err() == nil {
					resp, err := u.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "host of the backup", Budget: durationpb.New(10 * time.Second)})
					dense := report(resp, "dense")
					if ctx.Err() == nil && (err != nil || len(resp.GetHits()) == 0 || dense.GetReturned() == 0 ||
						dense.GetState() != triskelev1.LegState_LEG_STATE_OK && dense.GetState() != triskelev1.LegState_LEG_STATE_FALLBACK) {
						t.Errorf("recall: %v, dense leg %v", err, dense)
						return
					}
					_, err = u.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "n", Content: fmt.Sprintf("written meanwhile: %d", added)}})
					switch {
					case err == nil:
						added++
					case ctx.Err() == nil:
						t.Errorf("remember: %v", err)
						return
					}
				}
			})

			killed := u.launch("reembed", "--embedder", "hashed?dims=128", "--max-rate", "20")
			u.eventually("some memories are embedded", func() bool { return u.vectors("building") > 0 })
			if err := killed.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = killed.cmd.Wait()
			if n := u.vectors("building"); n <= 0 || n >= memories {
				t.Fatalf("%d of at least %d memories were embedded when it was killed", n, memories)
			}
			if out, err := u.command("up", "--listen", freeAddress(t), "--embedder", "hashed?dims=128"); err == nil || !strings.Contains(out, "run `triskele reembed`") {
				t.Errorf("starting with a model that is not ready: %v\n%s", err, out)
			}
			out := u.must("reembed", "--embedder", "hashed?dims=128")
			if !strings.Contains(out, "builtin/hashed-ngrams-v1 (128 dimensions) is the active model now") || u.vectors("retired") < memories {
				t.Errorf("%d vectors before; %s", u.vectors("retired"), out)
			}
			u.eventually("the process that was not restarted says so", func() bool {
				resp, err := u.recall.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "host of the backup", Budget: durationpb.New(10 * time.Second)})
				return err == nil && report(resp, "dense").GetState() == triskelev1.LegState_LEG_STATE_FALLBACK && strings.Contains(report(resp, "dense").GetReason(), "(128 dimensions)")
			})
			stop()
			load.Wait()
			u.signal("triskele", syscall.SIGTERM)
			if out, err := u.command("up", "--listen", freeAddress(t), "--embedder", "hashed"); err == nil ||
				!strings.Contains(out, "embedded with builtin/hashed-ngrams-v1 (128 dimensions), but the configured embedding model is builtin/hashed-ngrams-v1 (256 dimensions)") {
				t.Errorf("starting with the model before: %v\n%s", err, out)
			}
			u.serve("--embedder", "hashed?dims=128")
			u.awaitIndexes("n")
			info, err := u.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "n", Statistics: true})
			if err != nil {
				t.Fatal(err)
			}
			if active := u.vectors("active"); active != info.GetStatistics().GetLive() || active < int64(memories+added) {
				t.Errorf("%d of %d memories are embedded", active, info.GetStatistics().GetLive())
			}
			u.must("models", "prune")
			if n := u.vectors("retired"); n != -1 {
				t.Errorf("the model before is still there with %d vectors", n)
			}
			if resp, err := u.ask("n", 10*time.Second); err != nil || report(resp, "dense").GetState() != triskelev1.LegState_LEG_STATE_OK {
				t.Errorf("%v, dense leg %v", err, report(resp, "dense"))
			}
		})
	}
}
