package auth

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// defaultNames is the page size if the caller sets none.
	defaultNames = 100
	// mostListings bounds the lists of a page. A page that needs more is short, and another follows.
	mostListings = 64
)

// list answers ListNamespaces for a token of some namespaces only. The token's patterns, sorted and without covered
// ones, are disjoint intervals of names. A page joins a list of each. So it reads no other namespace, and its page
// token contains none.
func (t Token) list(ctx context.Context, req *triskelev1.ListNamespacesRequest, handle grpc.UnaryHandler) (*triskelev1.ListNamespacesResponse, error) {
	patterns, within := t.within(req.GetPrefix()), ""
	if page := req.GetPageToken(); page != "" {
		at := slices.IndexFunc(patterns, func(pattern string) bool { return strings.HasPrefix(page, mark(pattern)) })
		if at < 0 {
			return nil, rpc.Invalid("page_token", "must be the next_page_token of an earlier page")
		}
		patterns, within = patterns[at:], strings.TrimPrefix(page, mark(patterns[at]))
	}
	size := cmp.Or(int(req.GetPageSize()), defaultNames)
	resp := &triskelev1.ListNamespacesResponse{}
	for i, pattern := range patterns {
		if len(resp.Namespaces) == size || i == mostListings {
			resp.NextPageToken = mark(pattern)
			break
		}
		found, next, err := listed(ctx, pattern, &triskelev1.ListNamespacesRequest{
			Prefix: req.GetPrefix(), PageSize: new(int32(size - len(resp.Namespaces))), PageToken: within,
		}, handle)
		if err != nil {
			return nil, err
		}
		resp.Namespaces = append(resp.Namespaces, found...)
		if next != "" {
			resp.NextPageToken = mark(pattern) + next
			break
		}
		within = ""
	}
	return resp, nil
}

// within returns the token's patterns that may cover a name with this prefix, sorted. A pattern sorts right before
// those it covers.
func (t Token) within(prefix string) (patterns []string) {
	for _, pattern := range slices.Sorted(slices.Values(t.Namespaces)) {
		above, wild := strings.CutSuffix(pattern, "*")
		possible := strings.HasPrefix(above, prefix) || wild && strings.HasPrefix(prefix, above)
		if possible && (len(patterns) == 0 || !covers(patterns[len(patterns)-1], pattern)) {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// listed returns the namespaces of one pattern, and the token of the next page within it.
func listed(ctx context.Context, pattern string, req *triskelev1.ListNamespacesRequest, handle grpc.UnaryHandler) (_ []*triskelev1.ListNamespacesResponse_Namespace, next string, err error) {
	above, wild := strings.CutSuffix(pattern, "*")
	req.Prefix = max(above, req.GetPrefix()) // one is a prefix of the other
	if !wild {
		req.PageSize = new(int32(1)) // the name itself sorts first
	}
	answer, err := handle(ctx, req)
	if err != nil {
		return nil, "", err
	}
	resp := answer.(*triskelev1.ListNamespacesResponse)
	if wild {
		return resp.GetNamespaces(), resp.GetNextPageToken(), nil
	}
	if found := resp.GetNamespaces(); len(found) == 1 && found[0].GetNamespace() == pattern {
		return found, "", nil
	}
	return nil, "", nil
}

// mark is the prefix of page tokens within a pattern.
func mark(pattern string) string { return hash(pattern)[:12] }
