package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// pair is a primary and its hot standby, each in a folder of its own, and the system that runs on them: services write to
// whichever takes writes, and search in the standby.
type pair struct {
	*system
	primary, standby string
}

// onPair returns a connection URL for either server of a pair.
func onPair(t *testing.T, database, primary, standby, wanted string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", primary+","+standby)
	q.Set("port", "5432,5432")
	q.Set("target_session_attrs", wanted)
	u.RawQuery = q.Encode()
	return u.String()
}

func startPair(t *testing.T) *pair {
	t.Helper()
	primary, url := startServer(t)
	standby, err := os.MkdirTemp("", "triskele-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("../postgres.sh", "stop", standby).CombinedOutput(); err != nil {
			t.Errorf("stop the standby: %v\n%s", err, out)
		}
	})
	// What cleans up after the test finds the database on the standby.
	p := &pair{&system{t: t, url: onPair(t, url, primary, standby, "read-write")}, primary, standby}
	logins, more := map[string]string{}, setup{args: map[string][]string{}}
	for _, name := range append([]string{"memory"}, legs...) {
		logins[name] = pgtest.Login(t, p.url, name)
		more.args[name] = []string{"--postgres-read", onPair(t, logins[name], p.primary, p.standby, "prefer-standby")}
	}
	for _, name := range []string{"memory", "lexical"} {
		more.args[name] = append(more.args[name], "--admin", "127.0.0.1:0")
	}
	if out, err := exec.Command("../postgres.sh", "standby", p.standby, p.primary).CombinedOutput(); err != nil {
		t.Fatalf("start a standby: %v\n%s", err, out)
	}
	p.start(more, func(name string) string { return logins[name] })
	return p
}

// at connects to the database on one of the servers.
func (p *pair) at(dir string) *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), onPair(p.t, p.url, dir, dir, "any"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (p *pair) exec(conn *pgx.Conn, statement string) {
	p.t.Helper()
	if _, err := conn.Exec(p.t.Context(), statement); err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
}

func (p *pair) holds(conn *pgx.Conn, condition string) bool {
	p.t.Helper()
	var holds bool
	if err := conn.QueryRow(p.t.Context(), "SELECT "+condition).Scan(&holds); err != nil {
		p.t.Fatalf("%s: %v", condition, err)
	}
	return holds
}

// lags returns how far each leg says that its standby is behind.
func (p *pair) lags(namespace string) map[string]time.Duration {
	p.t.Helper()
	resp, err := p.recall.GetIndexStatus(p.t.Context(), &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
	if err != nil {
		p.t.Fatal(err)
	}
	lags := map[string]time.Duration{}
	for _, leg := range resp.GetLegs() {
		if lag := leg.GetStatus().GetStandbyLag(); lag != nil {
			lags[leg.GetLeg()] = lag.AsDuration()
		}
	}
	return lags
}

// TestStandby searches in a hot standby. While it replays nothing, legs say how far it is behind and that they do not know of
// a write asked for; when it does, they wait for that write. Then the primary is killed under load and the standby promoted:
// no recall fails, and no write is lost that was acknowledged.
func TestStandby(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	p.seed("pair")
	primary, standby := p.at(p.primary), p.at(p.standby)
	if !p.holds(standby, `count(DISTINCT application_name) FILTER (WHERE application_name IN ('triskele-lexical', 'triskele-dense', 'triskele-graph')) = 3 FROM pg_stat_activity`) {
		t.Error("the legs are not connected to the standby")
	}

	var written string
	if err := primary.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&written); err != nil {
		t.Fatal(err)
	}
	p.eventually("the standby has the memories", func() bool { return p.holds(standby, `pg_last_wal_replay_lsn() >= '`+written+`'`) })
	p.exec(standby, `SELECT pg_wal_replay_pause()`)
	p.eventually("the standby pauses", func() bool { return p.holds(standby, `pg_get_wal_replay_pause_state() = 'paused'`) })
	stored, err := p.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{
		Namespace: "pair", Title: "Osprey", Content: "The Osprey project keeps its backup on the host eagle-db-1.",
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(budget time.Duration) *triskelev1.RecallResponse {
		resp, err := p.recall.Recall(t.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{"pair"}, Query: "Where is the backup of Osprey kept?", Budget: durationpb.New(budget), AtLeast: []string{stored.GetRevisionToken()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	finds := func(resp *triskelev1.RecallResponse) bool {
		return slices.ContainsFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetId() == stored.GetMemory().GetId() })
	}
	for _, leg := range ask(time.Second).GetLegs() {
		if !leg.GetStale() && leg.GetState() == ok {
			t.Errorf("%s knows of a write that its standby has not replayed", leg.GetLeg())
		}
	}
	first, err := p.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "new", Content: "The first."}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.recall.Recall(t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{"new"}, Query: "What is the first?", Budget: durationpb.New(time.Second), AtLeast: []string{first.GetRevisionToken()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, leg := range resp.GetLegs() {
		if !leg.GetStale() && leg.GetState() == ok {
			t.Errorf("%s knows of a namespace that its standby has not replayed", leg.GetLeg())
		}
	}
	p.eventually("the legs say that the standby is behind", func() bool {
		lags := p.lags("pair")
		return lags["lexical"] > 0 && lags["dense"] > 0 && lags["graph"] > 0
	})
	if !strings.Contains(p.scrape("lexical"), "triskele_standby_lag_seconds{") {
		t.Error("no metric says how far the standby is behind")
	}
	answer := make(chan *triskelev1.RecallResponse, 1)
	go func() { answer <- ask(unhurried) }()
	p.eventually("a search waits for the standby", func() bool {
		return p.holds(standby, `count(*) > 0 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_last_wal_replay_lsn() >= $1%'`)
	})
	p.exec(standby, `SELECT pg_wal_replay_resume()`)
	if resp = <-answer; !finds(resp) || report(resp, "lexical").GetStale() {
		t.Errorf("a recall that waited for the standby does not know of the write: %v", resp)
	}
	p.eventually("the standby is not behind", func() bool { return p.lags("pair")["lexical"] == 0 })

	p.exec(primary, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	p.exec(primary, `ALTER SYSTEM SET synchronous_commit = 'remote_apply'`)
	p.exec(primary, `SELECT pg_reload_conf()`)
	p.eventually("the standby is synchronous", func() bool {
		return p.holds(primary, `count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'`)
	})
	p.failOver(standby)
}

// failOver kills the primary while memories are stored and recalled, and promotes the standby after a while.
func (p *pair) failOver(standby *pgx.Conn) {
	t := p.t
	var recalls, unavailable atomic.Int64
	var acknowledged struct {
		sync.Mutex
		ids []string
	}
	count := func() int {
		acknowledged.Lock()
		defer acknowledged.Unlock()
		return len(acknowledged.ids)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	each := func(fn func(int) bool) {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if !fn(i) {
					return
				}
			}
		})
	}
	for range 2 {
		each(func(int) bool {
			resp, err := p.ask("pair", unhurried)
			recalls.Add(1)
			if err != nil {
				t.Errorf("recall %d failed: %v", recalls.Load(), err)
				return false
			}
			if len(resp.GetHits()) == 0 || resp.GetHits()[0].GetMemory().GetContent() == "" {
				t.Errorf("recall %d is without hits or contents: %s", recalls.Load(), resp.GetDegradedReason())
				return false
			}
			return true
		})
	}
	for writer := range 2 {
		each(func(i int) bool {
			ctx, cancel := context.WithTimeout(t.Context(), unhurried)
			defer cancel()
			resp, err := p.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{
				Namespace: "pair", Content: fmt.Sprintf("Writer %d noted %d.", writer, i),
			}})
			switch {
			case err == nil:
				acknowledged.Lock()
				acknowledged.ids = append(acknowledged.ids, resp.GetMemory().GetId())
				acknowledged.Unlock()
			case status.Code(err) == codes.Unavailable:
				unavailable.Add(1)
			default:
				t.Errorf("a write failed otherwise than as unavailable: %v", err)
			}
			return true
		})
	}
	p.eventually("memories are stored", func() bool { return count() >= 20 })
	for _, pid := range serverPIDs(t, filepath.Join(p.primary, "data")) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one that has ended since is as good
	}
	before := count()
	asked := recalls.Load()
	p.eventually("writes fail and recalls go on", func() bool { return unavailable.Load() >= 5 && recalls.Load() >= asked+20 || t.Failed() })
	p.eventually("operators hear that nothing can be stored", func() bool { return strings.Contains(p.show("memory", "/healthz"), "concern: the primary database") })
	if !p.holds(standby, "memory.timeline() = 1") {
		t.Error("the standby is not on the primary's timeline")
	}
	p.exec(standby, `SELECT pg_promote()`)
	if !p.holds(standby, "memory.timeline() = 2") {
		t.Error("the promoted standby is not on a timeline of its own")
	}
	p.eventually("memories are stored again", func() bool { return count() >= before+20 || t.Failed() })
	p.eventually("operators hear no more of it", func() bool { return !strings.Contains(p.show("memory", "/healthz"), "concern") })
	close(stop)
	load.Wait()
	t.Logf("%d recalls, none of them failed; %d writes acknowledged, %d of them before the primary died; %d refused", recalls.Load(), count(), before, unavailable.Load())

	for ids := range slices.Chunk(acknowledged.ids, 100) {
		resp, err := p.memory.Get(t.Context(), &triskelev1.GetRequest{Namespace: "pair", Ids: ids})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.GetMemories()); n != len(ids) {
			t.Errorf("of %d acknowledged memories %d are there", len(ids), n)
		}
	}
	p.awaitIndexes("pair")
	resp, err := p.ask("pair", unhurried)
	if err != nil || resp.GetDegraded() {
		t.Errorf("after the failover: %v, %s", err, resp.GetDegradedReason())
	}
	if strings.Contains(p.logs(), "panic") {
		t.Error("a process panicked")
	}
}
