package gateway

import (
	"context"
	"fmt"
	"slices"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// maxSurrounded is the most hits whose surroundings are fetched, as the memory service has it.
const maxSurrounded = 100

// key is a memory's among all namespaces.
type key struct{ namespace, id string }

// surround fetches what stands beside the best hits in their threads. Each memory is given once, with the best hit that it
// stands beside, and a hit never. lost has a sentence for each namespace whose surroundings could not be fetched.
func (g *Gateway) surround(ctx context.Context, r *recall, hits []*triskelev1.Hit) (lost []string) {
	ctx, cancel := context.WithTimeout(ctx, g.forMemory(r))
	defer cancel()
	given, byID, ids := map[key]bool{}, map[key]*triskelev1.Hit{}, map[string][]string{}
	for i, hit := range hits {
		k := key{hit.GetNamespace(), hit.GetId()}
		given[k] = true
		if i < maxSurrounded && hit.GetMemory().GetThread() != "" {
			byID[k], ids[k.namespace] = hit, append(ids[k.namespace], k.id)
		}
	}
	for _, namespace := range r.req.GetNamespaces() {
		if len(ids[namespace]) == 0 {
			continue
		}
		resp, _, reason := g.get(ctx, &triskelev1.GetRequest{
			Namespace: namespace, Ids: ids[namespace], Surroundings: r.req.GetSurroundings(), Filter: r.req.GetFilter(),
		}, g.forMemory(r))
		if reason != "" {
			lost = append(lost, fmt.Sprintf("what stands beside hits in %s could not be fetched (%s)", namespace, reason))
			continue
		}
		for i, m := range resp.GetMemories() {
			if hit := byID[key{namespace, m.GetId()}]; hit != nil && i < len(resp.GetSurroundings()) {
				hit.Surroundings = resp.GetSurroundings()[i]
			}
		}
	}
	for _, hit := range hits {
		if hit.GetSurroundings() == nil {
			continue
		}
		known := func(m *triskelev1.Memory) bool {
			k := key{hit.GetNamespace(), m.GetId()}
			defer func() { given[k] = true }()
			return given[k]
		}
		hit.Surroundings.Before = slices.DeleteFunc(hit.Surroundings.Before, known)
		hit.Surroundings.After = slices.DeleteFunc(hit.Surroundings.After, known)
		if len(hit.Surroundings.Before)+len(hit.Surroundings.After) == 0 {
			hit.Surroundings = nil
		}
	}
	return lost
}

// belowSuccessors moves each superseded memory behind the one that superseded it, if that is among the winners too.
func belowSuccessors(winners []winner) []winner {
	at := make(map[key]int, len(winners))
	for i, w := range winners {
		at[key{w.Namespace, w.ID}] = i
	}
	out, behind := make([]winner, 0, len(winners)), map[int][]int{}
	var put func(i int)
	put = func(i int) {
		out = append(out, winners[i])
		for _, superseded := range behind[i] {
			put(superseded)
		}
	}
	for i, w := range winners {
		if by, there := at[key{w.Namespace, w.memory.GetSupersededBy()}]; there && by > i {
			behind[by] = append(behind[by], i)
		} else {
			put(i)
		}
	}
	return out
}
