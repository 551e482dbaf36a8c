package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// memoryName is what the memory service is called where legs are by their names.
const memoryName = "memory"

// checkNamespaces refuses a namespace in which nothing was ever stored. Asking costs a call, so only those are asked about
// that gave no hit, all at once, and an unreachable memory service is no reason to fail.
func (g *Gateway) checkNamespaces(ctx context.Context, r *recall, outcomes []outcome) error {
	ctx, cancel := context.WithTimeout(ctx, g.forMemory(r))
	defer cancel()
	namespaces := r.req.GetNamespaces()
	unknown := make([]bool, len(namespaces))
	var wg sync.WaitGroup
	for i, namespace := range namespaces {
		if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.namespace == namespace && o.returned > 0 }) {
			continue
		}
		wg.Go(func() {
			_, err := g.namespace(ctx, namespace)
			unknown[i] = status.Code(err) == codes.NotFound
		})
	}
	wg.Wait()
	if i := slices.Index(unknown, true); i >= 0 {
		return rpc.Invalid(fmt.Sprintf("namespaces[%d]", i), fmt.Sprintf("%q is unknown; storing a memory in it creates it", namespaces[i]))
	}
	return nil
}

// forMemory is how long a call to the memory service may take now.
func (g *Gateway) forMemory(r *recall) time.Duration {
	left := max(r.plan.Contents-time.Since(r.start), 0)
	if most := g.config.Memory.Cap; most > 0 {
		return min(left, most)
	}
	return left
}

// namespace asks the memory service about a namespace.
func (g *Gateway) namespace(ctx context.Context, name string) (*triskelev1.GetNamespaceResponse, error) {
	return pass(ctx, g.keeper, timed(g.keeper, func(ctx context.Context) (*triskelev1.GetNamespaceResponse, error) {
		return g.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: name})
	}))
}

// fetched is what came of fetching a namespace's winners: the memories by id, all that there are, or why there are none.
type fetched struct {
	memories map[string]*triskelev1.Memory
	matches  map[string]*triskelev1.Matches
	state    triskelev1.LegState // OK if they were fetched
	reason   string
}

// contents fetches the winners of each namespace, and finds the words of a query in them unless it is empty. Whatever goes
// wrong costs the contents only; the report says how it went.
func (g *Gateway) contents(ctx context.Context, r *recall, fused []fusion.Fused, query string, report *triskelev1.ContentsReport) map[string]fetched {
	start := time.Now()
	requests := map[string]*triskelev1.GetRequest{}
	for _, f := range fused {
		if requests[f.Namespace] == nil {
			requests[f.Namespace] = &triskelev1.GetRequest{Namespace: f.Namespace, Query: query}
		}
		requests[f.Namespace].Ids = append(requests[f.Namespace].Ids, f.ID)
	}
	given := g.forMemory(r)
	ctx, cancel := context.WithTimeout(ctx, given)
	defer cancel()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = make(map[string]fetched, len(requests))
	)
	for namespace, req := range requests {
		wg.Go(func() {
			f := g.fetch(ctx, req, given)
			mu.Lock()
			defer mu.Unlock()
			out[namespace] = f
		})
	}
	wg.Wait()
	report.Budget = durationpb.New(max(report.GetBudget().AsDuration(), given))
	report.Spent = durationpb.New(report.GetSpent().AsDuration() + time.Since(start))
	report.Asked += int32(len(fused))
	defer func() {
		state := attribute.String("state", stateName(report.GetState()))
		g.contentsTime.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(state))
	}()
	for _, namespace := range slices.Sorted(maps.Keys(out)) {
		f := out[namespace]
		report.Fetched += int32(len(f.memories))
		if report.GetState() == triskelev1.LegState_LEG_STATE_OK {
			report.State, report.Reason = f.state, f.reason
		}
	}
	return out
}

// fetch fetches a namespace's winners.
func (g *Gateway) fetch(ctx context.Context, req *triskelev1.GetRequest, given time.Duration) (f fetched) {
	resp, err := pass(ctx, g.keeper, timed(g.keeper, func(ctx context.Context) (*triskelev1.GetResponse, error) {
		return g.memory.Get(ctx, req)
	}))
	if err != nil {
		g.log.DebugContext(ctx, "contents not fetched", "namespace", req.GetNamespace(), "error", err.Error())
		f.state, f.reason, _ = g.failure(ctx, memoryName, err, given)
		return f
	}
	f.state = triskelev1.LegState_LEG_STATE_OK
	f.memories = make(map[string]*triskelev1.Memory, len(resp.GetMemories()))
	f.matches = make(map[string]*triskelev1.Matches, len(resp.GetMatches()))
	for i, m := range resp.GetMemories() {
		if f.memories[m.GetId()] = m; i < len(resp.GetMatches()) {
			f.matches[m.GetId()] = resp.GetMatches()[i]
		}
	}
	return f
}
