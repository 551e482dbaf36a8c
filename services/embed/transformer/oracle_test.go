//go:build oracle

package transformer_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/triskele/triskele/services/embed/transformer"
)

// oracle is a folder with a model and an oracle.json, a list of {"text", "v"} as modeltest/oracle.py writes.
var oracle = flag.String("oracle", "", "folder with a model and its oracle.json")

// TestOracle compares with vectors of sentence-transformers: `make test-transformer` is told where they are.
func TestOracle(t *testing.T) {
	t.Parallel()
	m, err := transformer.Load(*oracle, transformer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(*oracle, "oracle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var published []struct {
		Text string
		V    []float32
	}
	if err := json.Unmarshal(text, &published); err != nil {
		t.Fatal(err)
	}
	if len(published) == 0 {
		t.Error("the oracle says nothing")
	}
	least := 1.0
	for i, want := range published {
		got := query(t, m, want.Text)
		var product, a, b float64
		for k := range got {
			product += float64(got[k]) * float64(want.V[k])
			a += float64(got[k]) * float64(got[k])
			b += float64(want.V[k]) * float64(want.V[k])
		}
		cosine := product / math.Sqrt(a*b)
		if least = min(least, cosine); !(cosine >= 0.9999) {
			t.Errorf("text %d: cosine %v to the vector of sentence-transformers", i, cosine)
		}
	}
	t.Logf("%d texts: least cosine %.7f", len(published), least)
}
