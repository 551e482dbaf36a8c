package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/web"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// BenchmarkProtocols times calls that do nothing: gRPC on a port of its own and on one that it shares, and the others on that.
func BenchmarkProtocols(b *testing.B) {
	req := &triskelev1.RecallRequest{Namespaces: []string{"acme"}, Query: "x"}
	body := encoded(b, req)
	begin := func(b *testing.B, shared bool) *gateway {
		g := start(b, web.Flags{HTTP: shared}, auth.Listener{}, auth.Access{})
		g.recall = func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return &triskelev1.RecallResponse{}, nil
		}
		return g
	}
	post := func(b *testing.B, url, kind string, body []byte) {
		resp, err := http.Post(url, kind, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
	for name, shared := range map[string]bool{"gRPC alone": false, "gRPC beside HTTP": true} {
		b.Run(name, func(b *testing.B) {
			client := begin(b, shared).dial(insecure.NewCredentials())
			for b.Loop() {
				if _, err := client.Recall(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("JSON", func(b *testing.B) {
		url := "http://" + begin(b, true).address + "/v1/recall"
		for b.Loop() {
			post(b, url, "application/json", []byte(`{"namespaces": ["acme"], "query": "x"}`))
		}
	})
	b.Run("gRPC-Web", func(b *testing.B) {
		url := "http://" + begin(b, true).address + triskelev1.RecallService_Recall_FullMethodName
		for b.Loop() {
			post(b, url, web1, body)
		}
	})
}
