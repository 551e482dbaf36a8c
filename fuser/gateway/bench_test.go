package gateway_test

import (
	"fmt"
	"testing"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// BenchmarkRecall is the gateway's own time: its legs and the memory service answer at once, in the same process. For
// quantiles, and beside the bare fan-out, see tests/lab/fuserbench.
func BenchmarkRecall(b *testing.B) {
	const depth = 100
	var legs []leg
	for i := range 3 {
		ids := make([]string, depth)
		for j := range ids {
			ids[j] = fmt.Sprintf("0190c8a0-0000-7000-8000-%012d", j+depth/2*i)
		}
		resp, err := finds(bm25, ids...).search(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		legs = append(legs, answers(resp))
	}
	g := configured(b, func(c *gateway.Config) {
		for i := range c.Legs {
			c.Legs[i].Depth = depth
		}
	}, memories{}, legs...)
	req := request(func(r *triskelev1.RecallRequest) { r.Explain = false })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Recall(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
