//go:build citus

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

var (
	citusSingle     = flag.String("citus.single", "", "URL of one PostgreSQL to compare with")
	citusMemories   = flag.Int("citus.memories", 200_000, "memories to import")
	citusNamespaces = flag.Int("citus.namespaces", 1_000, "namespaces to import into")
	citusFor        = flag.Duration("citus.for", 20*time.Minute, "how long the import may take; what it has stored by then is checked")
	citusRecalls    = flag.Int("citus.recalls", 400, "recalls of each system")
	citusStop       = flag.String("citus.stop", "", "shell command that stops a worker node; empty leaves that part out")
	citusStart      = flag.String("citus.start", "", "shell command that starts it again")
)

// filled is a system with memories in many namespaces.
type filled struct {
	*system
	held    map[string]int // memories by namespace
	unknown map[string]int // writes that were refused
}

func citusNamespace(n int) string { return fmt.Sprintf("tenant/%04d", n) }

// fill imports memories until all are stored or the time is up. Each namespace has words of its own.
func fill(t *testing.T, name string, s *system) *filled {
	t.Helper()
	f := &filled{s, map[string]int{}, map[string]int{}}
	const batch = 500
	began := time.Now()
	stored := 0
	for stored < *citusMemories && time.Since(began) < *citusFor {
		stream, err := s.memory.Import(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		req := &triskelev1.ImportRequest{}
		each := max(1, *citusMemories / *citusNamespaces)
		for range min(batch, *citusMemories-stored) {
			n := stored / each % *citusNamespaces
			namespace := citusNamespace(n)
			req.Memories = append(req.Memories, &triskelev1.Memory{
				Namespace: namespace, Title: fmt.Sprintf("Host heron%d", stored), Tags: []string{"ops"},
				Content: fmt.Sprintf("The team of tenant%d keeps backup %d on the host heron%d and rotates its token on Friday.", n, stored, stored),
			})
			f.held[namespace]++
			stored++
		}
		if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if _, err := stream.CloseAndRecv(); err != nil {
			t.Fatalf("import into %s: %v", name, err)
		}
	}
	took := time.Since(began)
	t.Logf("%s: %d memories in %d namespaces stored in %v, %.0f/s", name, stored, len(f.held), took.Round(time.Second), float64(stored)/took.Seconds())
	f.awaitQueue()
	took = time.Since(began)
	t.Logf("%s: indexed in %v, %.0f/s", name, took.Round(time.Second), float64(stored)/took.Seconds())
	return f
}

// awaitQueue waits until all that was imported is indexed. What is measured next would share its cores with that.
func (f *filled) awaitQueue() {
	db := f.sql()
	for deadline := time.Now().Add(*citusFor); ; time.Sleep(time.Second) { // between polls of other processes
		var behind int
		if err := db.QueryRow(f.t.Context(), `SELECT count(*) FROM memory.index_queue WHERE NOT dead`).Scan(&behind); err != nil {
			f.t.Fatal(err)
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("not indexed within %v: %d tasks", *citusFor, behind)
		}
	}
}

func (f *filled) ask(ctx context.Context, n int) (*triskelev1.RecallResponse, error) {
	return f.recall.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{citusNamespace(n)}, Query: fmt.Sprintf("backup of tenant%d, token on Friday", n), Limit: proto.Int32(10), Budget: durationpb.New(10 * time.Second),
	})
}

// foreign counts hits of other namespaces.
func foreign(n int, resp *triskelev1.RecallResponse) (count int) {
	for _, hit := range resp.GetHits() {
		if hit.GetNamespace() != citusNamespace(n) {
			count++
		}
	}
	return count
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// TestDistributed imports into a Citus cluster and compares recalls with one PostgreSQL. Under load it moves shards and takes a worker
// away. At last it renames a namespace.
func TestDistributed(t *testing.T) {
	if !pgtest.Distributed(t) {
		t.Fatalf("%s is no coordinator of a Citus cluster with workers", pgtest.Variable)
	}
	spread := fill(t, "citus", start(t))
	spread.count(t)
	systems := map[string]*filled{"citus": spread}
	if *citusSingle != "" {
		t.Setenv(pgtest.Variable, *citusSingle)
		systems["one PostgreSQL"] = fill(t, "one PostgreSQL", start(t))
	}
	tenants := min(len(spread.held), 50)
	t.Run("recall", func(t *testing.T) { compareRecalls(t, systems, tenants) })
	t.Run("nodes", func(t *testing.T) {
		spread.underLoad(t, tenants, func(l *load) {
			l.moveShards(t)
			if *citusStop != "" {
				l.loseWorker(t)
			}
		})
		spread.count(t)
	})
	t.Run("rename", spread.rename)
}

// compareRecalls recalls from the systems in turns, so that all meet the same noise.
func compareRecalls(t *testing.T, systems map[string]*filled, tenants int) {
	warm, cold := map[string][]time.Duration{}, map[string][]time.Duration{}
	for i := range *citusRecalls {
		for name, f := range systems {
			began := time.Now()
			resp, err := f.ask(t.Context(), i%tenants)
			took := time.Since(began)
			if err != nil || len(resp.GetHits()) == 0 || foreign(i%tenants, resp) > 0 {
				t.Fatalf("%s: recall of %s: %d hits, %d of others, %v", name, citusNamespace(i%tenants), len(resp.GetHits()), foreign(i%tenants, resp), err)
			}
			if i < tenants {
				cold[name] = append(cold[name], took)
			} else {
				warm[name] = append(warm[name], took)
			}
		}
	}
	for name := range systems {
		t.Logf("%s: recall p50 %v at first, %v in memory", name, median(cold[name]), median(warm[name]))
	}
}

// TestWritesOfWorkers writes to many namespaces whose shards are on one worker, and to as many that are spread over all, in turns. It
// reports the rates: what they mean depends on the cores that the workers share.
func TestWritesOfWorkers(t *testing.T) {
	if !pgtest.Distributed(t) {
		t.Fatalf("%s is no coordinator of a Citus cluster with workers", pgtest.Variable)
	}
	const clients, rounds = 8, 4
	spread, single := start(t), start(t)
	if _, err := single.sql().Exec(t.Context(), `
		SELECT citus_drain_node(nodename, nodeport, 'block_writes') FROM pg_dist_node
		WHERE groupid > (SELECT min(groupid) FROM pg_dist_node WHERE groupid > 0)`); err != nil {
		t.Fatal(err)
	}
	took := map[*system]time.Duration{}
	for round := range rounds {
		for _, s := range []*system{spread, single} {
			var nodes int
			if err := s.sql().QueryRow(t.Context(), `SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'memory.memories'::regclass`).Scan(&nodes); err != nil {
				t.Fatal(err)
			}
			if one := s == single; one != (nodes == 1) {
				t.Fatalf("shards are on %d workers, on one: want %t", nodes, one)
			}
			began := time.Now()
			var writing sync.WaitGroup
			for client := range clients {
				writing.Go(func() {
					for n := client; n < *citusNamespaces; n += clients {
						if _, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{
							Namespace: citusNamespace(n), Content: fmt.Sprintf("In round %d the host heron%d was patched.", round, n),
						}}); err != nil {
							t.Errorf("%s: %v", citusNamespace(n), err)
							return
						}
					}
				})
			}
			writing.Wait()
			took[s] += time.Since(began)
		}
	}
	written := float64(rounds * *citusNamespaces)
	t.Logf("%d clients, %.0f writes into %d namespaces each: all workers %.0f/s, one worker %.0f/s", clients, written, *citusNamespaces, written/took[spread].Seconds(), written/took[single].Seconds())
}

// outcome is what happened to a tenant's requests.
type outcome struct {
	stored, refused, recalled, failed, degraded int
	slowest                                     time.Duration // write
}

// load is recalls of all tenants and writes to them.
type load struct {
	f     *filled
	mu    sync.Mutex
	seen  []outcome // by tenant
	codes map[codes.Code]int
	// Each is offered a value after a pass over all tenants.
	read, written chan struct{}
}

// underLoad runs fn while one client recalls and another writes.
func (f *filled) underLoad(t *testing.T, tenants int, fn func(*load)) {
	t.Helper()
	l := &load{f: f, seen: make([]outcome, tenants), codes: map[codes.Code]int{}, read: make(chan struct{}), written: make(chan struct{})}
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer close(stop)
	for passed, step := range map[chan struct{}]func(context.Context, *testing.T, int){l.read: l.recall, l.written: l.write} {
		running.Go(func() {
			for n := 0; ; n = (n + 1) % tenants {
				select {
				case <-stop:
					return
				default:
				}
				step(t.Context(), t, n)
				if n == tenants-1 {
					select {
					case passed <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	fn(l)
}

func (l *load) recall(ctx context.Context, t *testing.T, n int) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, err := l.f.ask(ctx, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[n].recalled++
	switch {
	case err != nil || len(resp.GetHits()) == 0:
		l.seen[n].failed++
	case resp.GetDegraded():
		l.seen[n].degraded++
	}
	if foreign(n, resp) > 0 {
		t.Errorf("%s: %d hits of others", citusNamespace(n), foreign(n, resp))
	}
}

func (l *load) write(ctx context.Context, _ *testing.T, n int) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	began := time.Now()
	_, err := l.f.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: citusNamespace(n), Content: fmt.Sprintf("Written to tenant%d at %v.", n, began)}})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.seen[n].refused++
		l.codes[status.Code(err)]++
		l.f.unknown[citusNamespace(n)]++
		return
	}
	l.seen[n].stored++
	l.seen[n].slowest = max(l.seen[n].slowest, time.Since(began))
	l.f.held[citusNamespace(n)]++
}

// pass returns what happened to each tenant in at least one pass of each client, begun after the call.
func (l *load) pass(begun func()) []outcome {
	both := func() {
		for range 2 { // the first was under way
			<-l.read
			<-l.written
		}
	}
	both()
	l.mu.Lock()
	l.seen, l.codes = make([]outcome, len(l.seen)), map[codes.Code]int{}
	l.mu.Unlock()
	begun()
	both()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

func sum(seen []outcome) (all outcome) {
	for _, o := range seen {
		all.stored, all.refused, all.recalled, all.failed, all.degraded = all.stored+o.stored, all.refused+o.refused, all.recalled+o.recalled, all.failed+o.failed, all.degraded+o.degraded
		all.slowest = max(all.slowest, o.slowest)
	}
	return all
}

// moveShards moves the rows of a tenant, and those of others in its shard, to another node, and has the cluster move shards until
// its nodes have as many.
func (l *load) moveShards(t *testing.T) {
	t.Helper()
	db := l.f.sql()
	all := sum(l.pass(func() {
		began := time.Now()
		for _, statement := range []string{
			`SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport, shard_transfer_mode := 'auto')
				FROM citus_shards s, pg_dist_node n WHERE s.shardid = get_shard_id_for_distribution_column('memory.memories', '` + citusNamespace(0) + `')
					AND n.groupid <> 0 AND n.nodeport <> s.nodeport LIMIT 1`,
			`SELECT rebalance_table_shards('memory.memories', shard_transfer_mode := 'auto')`,
		} {
			if _, err := db.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		t.Logf("shards moved in %v", time.Since(began).Round(time.Millisecond))
	}))
	t.Logf("while shards moved: %d recalls, %d failed, %d degraded; %d writes, %d refused %v, the slowest %v", all.recalled, all.failed, all.degraded, all.stored, all.refused, l.codes, all.slowest)
	if all.failed > 0 || all.degraded > 0 || all.refused > 0 {
		t.Errorf("while shards moved %d recalls failed, %d were degraded, and %d writes were refused, want none", all.failed, all.degraded, all.refused)
	}
}

// loseWorker stops a worker: namespaces in memory are still recalled, writes to its namespaces fail with a clear error, others are
// untouched, and all is well when it is back.
func (l *load) loseWorker(t *testing.T) {
	t.Helper()
	command := func(line string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	command(*citusStop)
	seen := l.pass(func() {})
	var there, away []outcome
	for n, o := range seen {
		switch {
		case o.refused == 0:
			there = append(there, o)
		case o.stored == 0:
			away = append(away, o)
		default:
			t.Errorf("%s: %d writes were refused and %d stored, want none of either", citusNamespace(n), o.refused, o.stored)
		}
	}
	for code, n := range l.codes {
		if code != codes.Unavailable {
			t.Errorf("%d writes were refused by %v, want UNAVAILABLE", n, code)
		}
	}
	on, off := sum(there), sum(away)
	t.Logf("a worker away: of its %d namespaces %d recalls, %d failed, %d degraded, %d writes refused; of %d others %d recalls, %d failed, %d degraded, %d writes stored",
		len(away), off.recalled, off.failed, off.degraded, off.refused, len(there), on.recalled, on.failed, on.degraded, on.stored)
	if len(there) == 0 || len(away) == 0 {
		t.Errorf("%d namespaces are on the worker and %d elsewhere, want some of each", len(away), len(there))
	}
	if off.failed > 0 || off.degraded != off.recalled {
		t.Errorf("of the worker's namespaces %d recalls of %d failed and %d were degraded, want none to fail and all degraded", off.failed, off.recalled, off.degraded)
	}
	if on.failed > 0 || on.degraded > 0 {
		t.Errorf("of other nodes' namespaces %d recalls of %d failed and %d were degraded, want none", on.failed, on.recalled, on.degraded)
	}
	command(*citusStart)
	for began := time.Now(); ; {
		all := sum(l.pass(func() {}))
		if all.failed == 0 && all.degraded == 0 && all.refused == 0 {
			t.Logf("all is well %v after the worker's start", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("a minute after the worker's start %d recalls fail, %d are degraded, %d writes are refused", all.failed, all.degraded, all.refused)
		}
	}
}

// count compares the memories of each namespace with those that were stored. A refused write may have been stored.
func (f *filled) count(t *testing.T) {
	t.Helper()
	for namespace, want := range f.held {
		resp, err := f.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: namespace, Statistics: true})
		if got := int(resp.GetMemories()); err != nil || got < want || got > want+f.unknown[namespace] {
			t.Fatalf("%s has %d memories, %v; want %d, and at most %d that were refused", namespace, got, err, want, f.unknown[namespace])
		}
	}
}

// rename moves a namespace to a name whose rows are on another node, and asks for it there.
func (f *filled) rename(t *testing.T) {
	t.Helper()
	var name string
	if err := f.sql().QueryRow(t.Context(), `
		SELECT 'renamed/' || n FROM generate_series(1, 1000) n
		WHERE (SELECT nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('memory.memories', 'renamed/' || n))
			<> (SELECT nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column('memory.memories', $1::text)) LIMIT 1`, citusNamespace(0)).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.memory.RenameNamespace(t.Context(), &triskelev1.RenameNamespaceRequest{Namespace: citusNamespace(0), NewName: name}); err != nil {
		t.Fatal(err)
	}
	resp, err := f.recall.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{name}, Query: "backup of tenant0", Limit: proto.Int32(10), Budget: durationpb.New(10 * time.Second)})
	if err != nil || len(resp.GetHits()) == 0 || resp.GetDegraded() {
		t.Errorf("recall of the renamed namespace: %d hits, %v, %v", len(resp.GetHits()), resp.GetDegradedReason(), err)
	}
	f.held[name], f.unknown[name] = f.held[citusNamespace(0)], f.unknown[citusNamespace(0)]
	delete(f.held, citusNamespace(0))
	f.count(t)
}
