package capture

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// recent is how many of the newest memories that somebody stored a recap chooses from in each namespace, and the size of a page.
	recent = 300
	// halfLife is the age at which a memory counts half as much.
	halfLife = 14 * 24 * time.Hour
)

// Lister lists memories, newest first.
type Lister interface {
	List(ctx context.Context, req *triskelev1.ListRequest, options ...grpc.CallOption) (*triskelev1.ListResponse, error)
}

// Recap returns the memories that matter at the beginning of a session in a folder, best first. Those that somebody stored for the project,
// or for none, take turns with those that were said in the project, or the last session would fill it alone. Of those stored, the project's
// come first. Then, important ones come before others, and new ones before old ones. What was stored for other projects follows. Turns of
// other projects are left out, and sensitive memories.
func Recap(ctx context.Context, lister Lister, namespaces []string, folder string, now time.Time) ([]*triskelev1.Hit, error) {
	project := ProjectOf(folder)
	type weighed struct {
		hit    *triskelev1.Hit
		weight float64
	}
	var own, shared, foreign, said []weighed
	seen := map[string]bool{}
	// walk sorts the newest memories that a filter matches into the lists, until there are enough or the context until ends.
	walk := func(ctx, until context.Context, namespace string, filter *triskelev1.Filter) (all bool, err error) {
		req := &triskelev1.ListRequest{Namespace: namespace, Filter: filter, PageSize: new(int32(recent))}
		for stored := 0; ; {
			resp, err := lister.List(ctx, req)
			if err != nil {
				return false, err
			}
			for _, m := range resp.GetMemories() {
				of := m.GetMetadata().GetFields()[Project].GetStringValue()
				turn := m.GetCategory() == Category
				if m.GetSensitive() || seen[m.GetId()] || (turn && of != project) {
					continue
				}
				seen[m.GetId()] = true
				list := &foreign
				switch {
				case turn:
					list = &said
				case of == project && of != "":
					list = &own
				case !filepath.IsAbs(of): // of no folder
					list = &shared
				}
				if !turn {
					stored++
				}
				age := max(0, now.Sub(cmp.Or(m.GetOccurredAt(), m.GetCreatedAt()).AsTime()))
				weight := (0.1 + m.GetImportance()) * math.Exp2(-float64(age)/float64(halfLife))
				*list = append(*list, weighed{&triskelev1.Hit{Id: m.GetId(), Memory: m}, weight})
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" || stored >= recent || until.Err() != nil {
				return req.PageToken == "", nil
			}
		}
	}
	looking, cancel := halfOf(ctx) // there may be very many turns of other projects
	defer cancel()
	var cut []string // namespaces in which newer memories of others may hide the project's
	for _, namespace := range namespaces {
		all, err := walk(ctx, looking, namespace, nil)
		if err != nil {
			return nil, err
		}
		if !all && project != "" {
			cut = append(cut, namespace)
		}
	}
	left, cancel := halfOf(ctx) // finding few among very many may take long, and what was found does without
	defer cancel()
	for _, namespace := range cut {
		_, _ = walk(left, left, namespace, &triskelev1.Filter{Metadata: map[string]*structpb.Value{Project: structpb.NewStringValue(project)}})
	}
	for _, list := range [][]weighed{own, shared, foreign, said} {
		slices.SortStableFunc(list, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	}
	stored := slices.Concat(own, shared)
	var hits []*triskelev1.Hit
	for i := range min(recent, max(len(stored)+len(foreign), len(said))) {
		if i < len(stored) {
			hits = append(hits, stored[i].hit)
		}
		if i < len(said) {
			hits = append(hits, said[i].hit)
		}
		if other := i - len(stored); other >= 0 && other < len(foreign) {
			hits = append(hits, foreign[other].hit)
		}
	}
	return hits, nil
}
