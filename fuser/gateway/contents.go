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

// memoryName is the memory service's name among the legs' in logs and metrics.
const memoryName = "memory"

// checkNamespaces refuses a recall in a namespace that was never written to. It asks the memory service, in parallel, about
// the namespaces without a hit only. It does not fail if the memory service cannot be reached.
func (g *Gateway) checkNamespaces(ctx context.Context, r *recall, outcomes []outcome) error {
	ctx, cancel := context.WithTimeout(ctx, g.forMemory(r))
	defer cancel()
	namespaces := r.req.GetNamespaces()
	unknown := make([]bool, len(namespaces))
	var asking []func()
	for i, namespace := range namespaces {
		if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.namespace == namespace && len(o.answer.hits) > 0 }) {
			continue
		}
		asking = append(asking, func() {
			_, err := g.namespace(ctx, namespace)
			unknown[i] = status.Code(err) == codes.NotFound
		})
	}
	g.workers.All(asking)
	if i := slices.Index(unknown, true); i >= 0 {
		return rpc.Invalid(fmt.Sprintf("namespaces[%d]", i), fmt.Sprintf("%q is unknown; storing a memory in it creates it", namespaces[i]))
	}
	return nil
}

// forMemory returns the time that a call of the memory service may take now.
func (g *Gateway) forMemory(r *recall) time.Duration {
	left := max(r.plan.Contents-time.Since(r.start), 0)
	if most := g.config.Memory.Cap; most > 0 {
		return min(left, most)
	}
	return left
}

// namespace asks the memory service about a namespace.
func (g *Gateway) namespace(ctx context.Context, name string) (*triskelev1.GetNamespaceResponse, error) {
	return timedCall(ctx, g.memory.dependency, func(ctx context.Context) (*triskelev1.GetNamespaceResponse, error) {
		return g.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: name})
	})
}

// fetched holds a namespace's winners by id, or the reason why they could not be fetched.
type fetched struct {
	memories map[string]*triskelev1.Memory
	matches  map[string]*triskelev1.Matches
	state    triskelev1.LegState // OK if they were fetched
	reason   string
}

// fetchedAtOnce is the most memories that are fetched in one call, whose answer is limited.
const fetchedAtOnce = 100

// and adds another part of a namespace's winners.
func (f fetched) and(other fetched) fetched {
	if other.state == triskelev1.LegState_LEG_STATE_UNSPECIFIED {
		return f
	}
	if other.reason != "" {
		f.state, f.reason = other.state, other.reason
	}
	f.memories, f.matches = merged(f.memories, other.memories), merged(f.matches, other.matches)
	return f
}

func merged[V any](a, b map[string]V) map[string]V {
	if len(a) == 0 {
		return b
	}
	maps.Copy(a, b)
	return a
}

// contents fetches memories by namespace, and the matches of the query's words in them unless it is empty. A failure costs the
// contents only. The report says how the fetches ended.
func (g *Gateway) contents(ctx context.Context, r *recall, fused []fusion.Fused, query string, report *triskelev1.ContentsReport) map[string]fetched {
	start := time.Now()
	ids := map[string][]string{}
	for _, f := range fused {
		ids[f.Namespace] = append(ids[f.Namespace], f.ID)
	}
	given := g.forMemory(r)
	ctx, cancel := context.WithTimeout(ctx, given)
	defer cancel()
	var fetching []func()
	var mu sync.Mutex
	out := make(map[string]fetched, len(ids))
	for namespace, all := range ids {
		for some := range slices.Chunk(all, fetchedAtOnce) {
			fetching = append(fetching, func() {
				f := g.fetch(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: some, Query: query}, given)
				mu.Lock()
				defer mu.Unlock()
				out[namespace] = f.and(out[namespace])
			})
		}
	}
	g.workers.All(fetching)
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

// fetch fetches memories of a namespace.
func (g *Gateway) fetch(ctx context.Context, req *triskelev1.GetRequest, given time.Duration) (f fetched) {
	resp, err := timedCall(ctx, g.memory.dependency, func(ctx context.Context) (*triskelev1.GetResponse, error) {
		return g.memory.Get(ctx, req)
	})
	if err != nil {
		g.log.DebugContext(ctx, "contents not fetched", "namespace", req.GetNamespace(), "error", err.Error())
		f.state, f.reason = g.failure(ctx, memoryName, err, given)
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
