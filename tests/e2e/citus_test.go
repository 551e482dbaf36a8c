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
	held map[string]int // memories by namespace
}

func citusNamespace(n int) string { return fmt.Sprintf("tenant/%04d", n) }

// fill imports memories until all are stored or the time is up. Each namespace has words of its own.
func fill(t *testing.T, name string, s *system) *filled {
	t.Helper()
	f := &filled{s, map[string]int{}}
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
	return f
}

func (f *filled) ask(ctx context.Context, n int) (*triskelev1.RecallResponse, error) {
	return f.recall.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{citusNamespace(n)}, Query: fmt.Sprintf("backup of tenant%d, token on Friday", n), Limit: proto.Int32(10), Budget: durationpb.New(10 * time.Second),
	})
}

// foreign counts hits of other namespaces.
func foreign(n int, resp *triskelev1.RecallResponse) (count int) {
	for _, hit := range resp.GetHits() {
		if hit.GetMemory().GetNamespace() != citusNamespace(n) {
			count++
		}
	}
	return count
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// TestDistributed imports into a Citus cluster, compares recalls with one PostgreSQL, and takes a worker away.
func TestDistributed(t *testing.T) {
	if !pgtest.Distributed(t) {
		t.Fatalf("%s is no coordinator of a Citus cluster with workers", pgtest.Variable)
	}
	spread := fill(t, "citus", start(t))
	for namespace, want := range spread.held {
		resp, err := spread.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: namespace, Statistics: true})
		if err != nil || resp.GetMemories() != int64(want) {
			t.Fatalf("%s has %d memories, %v; want %d", namespace, resp.GetMemories(), err, want)
		}
	}
	systems := map[string]*filled{"citus": spread}
	if *citusSingle != "" {
		t.Setenv(pgtest.Variable, *citusSingle)
		systems["one PostgreSQL"] = fill(t, "one PostgreSQL", start(t))
	}
	warm, cold := map[string][]time.Duration{}, map[string][]time.Duration{}
	tenants := min(len(spread.held), 50)
	for i := range *citusRecalls { // in turns, so that both meet the same noise
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
	if *citusStop != "" {
		loseWorker(t, spread, tenants)
	}
}

// loseWorker stops a worker: namespaces in memory are still recalled, writes to its namespaces fail with a clear error, others are
// untouched, and nothing is lost when it is back.
func loseWorker(t *testing.T, f *filled, tenants int) {
	t.Helper()
	command := func(line string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	command(*citusStop)
	var refused, written, failed, degraded int
	errs := map[codes.Code]int{}
	for n := range tenants {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		resp, err := f.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: citusNamespace(n), Content: fmt.Sprintf("Written to tenant%d without a worker.", n)}})
		switch {
		case err == nil:
			written++
			f.held[resp.GetMemory().GetNamespace()]++
		default:
			refused++
			errs[status.Code(err)]++
		}
		found, err := f.ask(ctx, n)
		cancel()
		switch {
		case err != nil || len(found.GetHits()) == 0:
			failed++
		case found.GetDegraded():
			degraded++
		}
		if foreign(n, found) > 0 {
			t.Errorf("%s: %d hits of others while a worker was away", citusNamespace(n), foreign(n, found))
		}
	}
	command(*citusStart)
	t.Logf("a worker away, %d namespaces: %d writes stored, %d refused (%v); %d recalls failed, %d were degraded", tenants, written, refused, errs, failed, degraded)
	if refused == 0 || written == 0 {
		t.Errorf("%d writes were refused and %d stored, want some of each: namespaces are on both workers", refused, written)
	}
	if errs[codes.Internal] > 0 || errs[codes.Unknown] > 0 {
		t.Errorf("writes were refused by %v, want UNAVAILABLE", errs)
	}
	deadline := time.Now().Add(time.Minute)
	for n := range tenants {
		namespace := citusNamespace(n)
		for {
			resp, err := f.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: namespace, Statistics: true})
			if err == nil {
				if got := resp.GetMemories(); got != int64(f.held[namespace]) {
					t.Errorf("%s has %d memories after the worker came back, want %d", namespace, got, f.held[namespace])
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", namespace, err)
			}
		}
	}
}
