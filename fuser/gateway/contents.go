package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// checkNamespaces refuses a namespace in which nothing was ever stored. Asking costs a call, so only those are asked about
// that gave no hit, all at once, and an unreachable memory service is no reason to fail.
func (g *Gateway) checkNamespaces(ctx context.Context, namespaces []string, outcomes []outcome) error {
	unknown := make([]bool, len(namespaces))
	var wg sync.WaitGroup
	for i, namespace := range namespaces {
		if slices.ContainsFunc(outcomes, func(o outcome) bool { return o.namespace == namespace && o.returned > 0 }) {
			continue
		}
		wg.Go(func() {
			_, err := g.memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
			unknown[i] = status.Code(err) == codes.NotFound
		})
	}
	wg.Wait()
	if i := slices.Index(unknown, true); i >= 0 {
		return rpc.Invalid(fmt.Sprintf("namespaces[%d]", i), fmt.Sprintf("%q is unknown; storing a memory in it creates it", namespaces[i]))
	}
	return nil
}

// fetched is what came of fetching a namespace's winners: the memories by id, all that there are, or an error.
type fetched struct {
	memories map[string]*triskelev1.Memory
	matches  map[string]*triskelev1.Matches
	err      error
}

// contents fetches the winners of each namespace, and finds the words of a query in them unless it is empty.
func (g *Gateway) contents(ctx context.Context, fused []fusion.Fused, query string) map[string]fetched {
	requests := map[string]*triskelev1.GetRequest{}
	for _, f := range fused {
		if requests[f.Namespace] == nil {
			requests[f.Namespace] = &triskelev1.GetRequest{Namespace: f.Namespace, Query: query}
		}
		requests[f.Namespace].Ids = append(requests[f.Namespace].Ids, f.ID)
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = make(map[string]fetched, len(requests))
	)
	for namespace, req := range requests {
		wg.Go(func() {
			resp, err := g.memory.Get(ctx, req)
			if err != nil {
				g.log.DebugContext(ctx, "contents not fetched", "namespace", namespace, "error", err.Error())
			}
			memories := make(map[string]*triskelev1.Memory, len(req.GetIds()))
			matches := make(map[string]*triskelev1.Matches, len(resp.GetMatches()))
			for i, m := range resp.GetMemories() {
				if memories[m.GetId()] = m; i < len(resp.GetMatches()) {
					matches[m.GetId()] = resp.GetMatches()[i]
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out[namespace] = fetched{memories, matches, err}
		})
	}
	wg.Wait()
	return out
}
