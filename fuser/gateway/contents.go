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
		if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.namespace == namespace && len(o.hits) > 0 }) {
			continue
		}
		asking = append(asking, func() {
			_, err := timedCall(ctx, g.memory.dependency, func(ctx context.Context) (*triskelev1.GetNamespaceResponse, error) {
				return g.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
			})
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

// get fetches memories. For a failure it returns the state and the reason that the recall reports.
func (g *Gateway) get(ctx context.Context, req *triskelev1.GetRequest, given time.Duration) (*triskelev1.GetResponse, triskelev1.LegState, string) {
	resp, err := timedCall(ctx, g.memory.dependency, func(ctx context.Context) (*triskelev1.GetResponse, error) {
		return g.memory.Get(ctx, req)
	})
	if err != nil {
		g.log.DebugContext(ctx, "memories not fetched", "namespace", req.GetNamespace(), "error", err.Error())
		state, reason := g.failure(ctx, memoryName, err, given)
		return nil, state, reason
	}
	return resp, triskelev1.LegState_LEG_STATE_OK, ""
}

// fetched holds a namespace's winners by id, or the reason why some of them could not be fetched.
type fetched struct {
	memories map[string]*triskelev1.Memory
	matches  map[string]*triskelev1.Matches
	state    triskelev1.LegState // OK if they were fetched
	reason   string
}

// fetchedAtOnce is the most memories that are fetched in one call, whose answer is limited.
const fetchedAtOnce = 100

// contents fetches memories by namespace, and the matches of the query's words in them unless it is empty. A failure costs the
// contents only. The report says how the fetches ended.
func (g *Gateway) contents(ctx context.Context, r *recall, fused []fusion.Fused, query string, report *triskelev1.ContentsReport) map[string]*fetched {
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
	out := make(map[string]*fetched, len(ids))
	for namespace, all := range ids {
		of := &fetched{memories: make(map[string]*triskelev1.Memory, len(all)), matches: map[string]*triskelev1.Matches{}, state: triskelev1.LegState_LEG_STATE_OK}
		out[namespace] = of
		for some := range slices.Chunk(all, fetchedAtOnce) {
			fetching = append(fetching, func() {
				resp, state, reason := g.get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: some, Query: query}, given)
				mu.Lock()
				defer mu.Unlock()
				if reason != "" {
					of.state, of.reason = state, reason
				}
				for i, m := range resp.GetMemories() {
					if of.memories[m.GetId()] = m; i < len(resp.GetMatches()) {
						of.matches[m.GetId()] = resp.GetMatches()[i]
					}
				}
			})
		}
	}
	g.workers.All(fetching)
	report.Budget = durationpb.New(max(report.GetBudget().AsDuration(), given))
	report.Spent = durationpb.New(report.GetSpent().AsDuration() + time.Since(start))
	report.Asked += int32(len(fused))
	for _, namespace := range slices.Sorted(maps.Keys(out)) {
		of := out[namespace]
		report.Fetched += int32(len(of.memories))
		if report.GetState() == triskelev1.LegState_LEG_STATE_OK {
			report.State, report.Reason = of.state, of.reason
		}
	}
	state := attribute.String("state", stateName(report.GetState()))
	g.contentsTime.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(state))
	return out
}
