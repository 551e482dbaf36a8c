package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// All documents of a namespace share their first component. The document with the query's second component is nearest only
// if the shared one counts less. The other namespace, which shares nothing, must not matter.
func TestWeigh(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	const dimensions = 80
	c := &collection{set: &eval.Set{Namespaces: []string{"a", "b"}}}
	add := func(namespace string, vector []float32) {
		c.set.Memories = append(c.set.Memories, &triskelev1.Memory{Namespace: namespace})
		var squares float64
		for _, x := range vector {
			squares += float64(x) * float64(x)
		}
		for i := range vector {
			vector[i] /= float32(math.Sqrt(squares))
		}
		c.documents = append(c.documents, vector)
	}
	noise := func(first float32) []float32 {
		vector := make([]float32, dimensions)
		for i := range vector {
			vector[i] = float32(random.NormFloat64())
		}
		vector[0] = first
		return vector
	}
	for range 300 {
		add("a", noise(20))
		add("b", noise(0))
	}
	query := make([]float32, dimensions)
	query[0], query[1] = 0.9, 0.4
	c.queries = [][]float32{query, query}
	c.set.Queries = []eval.Query{{ID: "a", Namespace: "a"}, {ID: "b", Namespace: "b"}}
	got, err := c.weigh(dimensions)
	if err != nil {
		t.Fatal(err)
	}
	ratio := func(v []float32) float64 { return float64(v[0] / v[1]) }
	if before, after := ratio(query), ratio(got[0]); after > before/4 || after <= 0 {
		t.Errorf("the shared component counts %.2f of the other, and before %.2f: want at most a quarter of that", after, before)
	}
	if before, after := ratio(query), ratio(got[1]); after < before/1.5 {
		t.Errorf("a component that nothing shares counts %.2f of the other, and before %.2f", after, before)
	}
	if query[0] != 0.9 {
		t.Error("the query itself was changed")
	}
}
