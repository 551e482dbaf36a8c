package auth_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// recalls answers every recall that gets through to it.
type recalls struct {
	triskelev1.UnimplementedRecallServiceServer
}

func (recalls) Recall(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	return &triskelev1.RecallResponse{}, nil
}

// stored are the names of the namespaces that records has, in order.
var stored = []string{"acme", "acme-secret-merger", "acme/assistant", "acme/billing", "acme/billing/eu", "acme2/payroll", "globex", "globex.old", "initech/a", "initech/b", "zeta"}

// ListNamespaces pages as the memory service does.
func (records) ListNamespaces(_ context.Context, req *triskelev1.ListNamespacesRequest) (*triskelev1.ListNamespacesResponse, error) {
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "page_token")
	}
	size := 100
	if req.PageSize != nil {
		size = int(req.GetPageSize())
	}
	resp := &triskelev1.ListNamespacesResponse{}
	for _, name := range stored {
		if !strings.HasPrefix(name, req.GetPrefix()) || name <= string(after) {
			continue
		}
		if len(resp.Namespaces) == size {
			resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(resp.Namespaces[size-1].GetNamespace()))
			break
		}
		resp.Namespaces = append(resp.Namespaces, &triskelev1.ListNamespacesResponse_Namespace{Namespace: name})
	}
	return resp, nil
}

// TestListedNamespaces: a token is told the names that it is good for and no others, by pages of every size.
func TestListedNamespaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allowed []string
		prefix  string
		want    []string
	}{
		"its own, of those that begin so": {[]string{"acme"}, "acme", []string{"acme"}},
		"those below":                     {[]string{"acme/*"}, "acme", []string{"acme/assistant", "acme/billing", "acme/billing/eu"}},
		"its own and those below":         {[]string{"acme/*", "acme"}, "", []string{"acme", "acme/assistant", "acme/billing", "acme/billing/eu"}},
		"a prefix within":                 {[]string{"acme/*"}, "acme/b", []string{"acme/billing", "acme/billing/eu"}},
		"a prefix beside":                 {[]string{"acme/*"}, "globex", nil},
		"several, in order":               {[]string{"zeta", "initech/*", "globex", "acme/billing", "acme/billing/*"}, "", []string{"acme/billing", "acme/billing/eu", "globex", "initech/a", "initech/b", "zeta"}},
		"one within another":              {[]string{"acme/*", "acme/billing", "acme/billing/*"}, "", []string{"acme/assistant", "acme/billing", "acme/billing/eu"}},
		"all":                             {[]string{"globex", "*"}, "", stored},
		"all that begin so":               {[]string{"*"}, "acme", []string{"acme", "acme-secret-merger", "acme/assistant", "acme/billing", "acme/billing/eu", "acme2/payroll"}},
		"one that is not there":           {[]string{"acme/a", "acme/b", "acme/c"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, secret := tokens(t, auth.Token{Namespaces: c.allowed, Scopes: []auth.Scope{auth.Admin}})
			client := triskelev1.NewMemoryServiceClient(dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, secret))
			for _, size := range []int32{1, 2, 3, 1000} {
				var got []string
				for page := ""; ; {
					resp, err := client.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{Prefix: c.prefix, PageSize: &size, PageToken: page})
					if err != nil {
						t.Fatalf("pages of %d: %v", size, err)
					}
					if len(resp.GetNamespaces()) > int(size) {
						t.Errorf("a page of %d has %d names", size, len(resp.GetNamespaces()))
					}
					for _, n := range resp.GetNamespaces() {
						got = append(got, n.GetNamespace())
					}
					if page = resp.GetNextPageToken(); page == "" || len(got) > len(stored) {
						break
					}
					if last, _ := base64.RawURLEncoding.DecodeString(page); slices.Contains(stored, string(last)) && !slices.Contains(c.want, string(last)) {
						t.Errorf("the token of the next page says %q", last)
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("by pages of %d: got %q, want %q", size, got, c.want)
				}
			}
		})
	}
}

// TestPagesOfManyNames: a token with more names than one call looks up gets all of them, by several pages.
func TestPagesOfManyNames(t *testing.T) {
	t.Parallel()
	allowed := []string{"zeta"}
	for i := range 1000 {
		allowed = append(allowed, fmt.Sprint("n", i))
	}
	file, secret := tokens(t, auth.Token{Namespaces: allowed, Scopes: []auth.Scope{auth.Admin}})
	client := triskelev1.NewMemoryServiceClient(dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, secret))
	pages, page := 0, ""
	var got []string
	for pages == 0 || page != "" && pages < 100 {
		resp, err := client.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{PageToken: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range resp.GetNamespaces() {
			got = append(got, n.GetNamespace())
		}
		page = resp.GetNextPageToken()
		pages++
	}
	if !slices.Equal(got, []string{"zeta"}) || pages < 2 || pages > 100 {
		t.Errorf("got %q by %d pages, want zeta by some", got, pages)
	}
	if _, err := client.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{PageToken: "what is this"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a page token that nobody gave: got %v, want %v", err, codes.InvalidArgument)
	}
}

// TestWrongRequestsAreRefusedFirst: what is no valid request is neither compared with the token nor counted, however much it
// names, and costs next to nothing.
func TestWrongRequestsAreRefusedFirst(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes, Rate: 0.001})
	client := triskelev1.NewRecallServiceClient(dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, secret))
	many := make([]string, 120_000)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it took 11
	defer cancel()
	for name, namespaces := range map[string][]string{"too many": many, "the first one": {"n0", "Not A Name"}} {
		_, err := client.Recall(ctx, &triskelev1.RecallRequest{Namespaces: namespaces, Query: "q"})
		if code := status.Code(err); code != codes.InvalidArgument && !(len(namespaces) > 2 && code == codes.ResourceExhausted) { // which a bound of messages would be
			t.Errorf("%s: got %.200v, want %v", name, err, codes.InvalidArgument)
		}
	}
	if _, err := client.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n0"}, Query: "q"}); err != nil {
		t.Errorf("after requests that were refused: %v", err)
	}
}

// TestNothingIsCountedForWhatIsDenied: a call that names one namespace too many uses up no rate in the others.
func TestNothingIsCountedForWhatIsDenied(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"a"}, Scopes: auth.Scopes, Rate: 0.001})
	client := triskelev1.NewRecallServiceClient(dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file}), plain, secret))
	ask := func(namespaces ...string) codes.Code {
		_, err := client.Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: namespaces, Query: "q"})
		return status.Code(err)
	}
	for i, c := range []struct {
		namespaces []string
		want       codes.Code
	}{{[]string{"a", "b"}, codes.PermissionDenied}, {[]string{"a"}, codes.OK}, {[]string{"a"}, codes.ResourceExhausted}} {
		if got := ask(c.namespaces...); got != c.want {
			t.Errorf("call %d, of %v: got %v, want %v", i, c.namespaces, got, c.want)
		}
	}
}

// TestAuditIsBounded: nothing that a caller sends makes a line of the audit log long.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	file, secret := tokens(t, auth.Token{Namespaces: []string{"*"}, Scopes: auth.Scopes})
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	conn := dial(t, serve(t, auth.Listener{TLS: plain}, auth.Access{Tokens: file, Audit: log}), plain, secret)
	_ = remember(t.Context(), conn, strings.Repeat("n", 1<<20))
	_ = list(t.Context(), conn, "A \n prefix")
	_ = list(t.Context(), conn, strings.Repeat("n", 1<<20))
	_ = get(t.Context(), dial(t, conn.Target(), plain, strings.Repeat("x", 8<<10)), "a")
	names := make([]string, 3000)
	for i := range names {
		names[i] = fmt.Sprint("namespace/", i)
	}
	if err := importing(t.Context(), conn, names...); err != nil {
		t.Fatal(err)
	}
	var text []byte
	eventually(t, func() bool { // the answer may be there before the line
		text, _ = os.ReadFile(log)
		return bytes.Contains(text, []byte("MemoryService/Import"))
	})
	for line := range bytes.Lines(text) {
		if len(line) > 4096 {
			t.Errorf("a line has %d bytes: %.300s", len(line), line)
		}
		if bytes.Contains(line, []byte("prefix")) {
			t.Errorf("a line has what is no name: %.300s", line)
		}
	}
	if !bytes.Contains(text, []byte(`"namespace/0"`)) || !bytes.Contains(text, []byte(`"namespace_count":3000`)) {
		t.Errorf("the line of the import says neither a namespace nor how many there are: %.2000s", text)
	}
}
