package capture

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc"

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

// Recap returns the memories that matter at the beginning of a session in a folder, best first. Those that somebody stored take turns with
// those that were said in the project, or the last session would fill it alone. Of both, important ones come before others, and new ones before
// old ones. Turns of other projects are left out, and sensitive memories.
func Recap(ctx context.Context, lister Lister, namespaces []string, folder string, now time.Time) ([]*triskelev1.Hit, error) {
	project := ProjectOf(folder)
	type weighed struct {
		hit    *triskelev1.Hit
		weight float64
	}
	var stored, said []weighed
	looking, cancel := halfOf(ctx) // there may be very many turns of other projects
	defer cancel()
	for _, namespace := range namespaces {
		req := &triskelev1.ListRequest{Namespace: namespace, PageSize: new(int32(recent))}
		for most := len(stored) + recent; ; {
			resp, err := lister.List(ctx, req)
			if err != nil {
				return nil, err
			}
			for _, m := range resp.GetMemories() {
				of := m.GetMetadata().GetFields()[Project].GetStringValue()
				if m.GetSensitive() || (m.GetCategory() == Category && of != project) {
					continue
				}
				age := max(0, now.Sub(cmp.Or(m.GetOccurredAt(), m.GetCreatedAt()).AsTime()))
				weight := (0.1 + m.GetImportance()) * math.Exp2(-float64(age)/float64(halfLife))
				if of == project && of != "" {
					weight *= 2
				}
				list := &stored
				if m.GetCategory() == Category {
					list = &said
				}
				*list = append(*list, weighed{&triskelev1.Hit{Id: m.GetId(), Memory: m}, weight})
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" || len(stored) >= most || looking.Err() != nil {
				break
			}
		}
	}
	var hits []*triskelev1.Hit
	for _, list := range [][]weighed{stored, said} {
		slices.SortStableFunc(list, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	}
	for i := range min(max(len(stored), len(said)), recent) {
		for _, list := range [][]weighed{stored, said} {
			if i < len(list) {
				hits = append(hits, list[i].hit)
			}
		}
	}
	return hits, nil
}
