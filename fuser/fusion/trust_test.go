package fusion_test

import (
	"math"
	"testing"

	"github.com/triskele/triskele/fuser/fusion"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestTrustStandsAgainstAgreement: what two lists agree on loses to a trusted third but for what leads both.
func TestTrustStandsAgainstAgreement(t *testing.T) {
	trusted := list("graph", 1, hops, "x", "y", "z", "v")
	trusted.Trust = 3
	alike := []string{"a", "b", "c", "d", "e"}
	text, meaning := list("lexical", 1, bm25, alike...), list("dense", 1, cosine, alike...)
	two := []fusion.List{text, meaning, trusted}
	silent := list("dense", 1, cosine)
	idle := list("dense", 0, cosine, alike...)
	elsewhere := list("dense", 1, cosine, alike...)
	elsewhere.Namespace = "m"
	for name, x := range map[string]struct {
		lists  []fusion.List
		method triskelev1.FusionMethod
		raw    map[string]float64 // contributions of the trusted list
	}{
		// 4 / (2 + rank), but no more than 1/3 + 1/3.
		"two others":         {two, rrf, map[string]float64{"x": 2. / 3, "y": 2. / 3, "z": 2. / 3, "v": 4. / 6}},
		"one other":          {[]fusion.List{text, trusted}, rrf, map[string]float64{"x": 1. / 3, "y": 1. / 4, "v": 1. / 6}},
		"one has no hits":    {[]fusion.List{text, silent, trusted}, rrf, map[string]float64{"x": 1. / 3, "y": 1. / 4}},
		"one has no weight":  {[]fusion.List{text, idle, trusted}, rrf, map[string]float64{"x": 1. / 3, "y": 1. / 4}},
		"one is elsewhere":   {[]fusion.List{text, elsewhere, trusted}, rrf, map[string]float64{"x": 1. / 3, "y": 1. / 4}},
		"scores by distance": {two, convex, map[string]float64{"x": 2, "y": 2, "z": 2, "v": 1}}, // 4 × normalised, no more than 1 + 1
	} {
		for _, f := range fuse(x.lists, fusion.Options{Method: x.method, K: 2, Sort: importance, Limit: 20}) {
			want, ok := x.raw[f.ID]
			if !ok {
				continue
			}
			delete(x.raw, f.ID)
			c := f.Contributions[0]
			if c.Leg != "graph" || math.Abs(c.Value-want) > 1e-12 {
				t.Errorf("%s: %s gets %v, want %v", name, f.ID, c.Value, want)
			}
			told := c.Weight * c.Normalized
			if x.method == rrf {
				told = c.Weight / (2 + float64(c.Rank))
			}
			if math.Abs(c.Value-told) > 1e-12 {
				t.Errorf("%s: %s gets %v, although its weight is %v", name, f.ID, c.Value, c.Weight)
			}
		}
		if len(x.raw) > 0 {
			t.Errorf("%s: not found: %v", name, x.raw)
		}
	}
	if got := fuse(two, fusion.Options{Method: rrf, K: 2, Sort: importance, Limit: 5}); score(got, "a") < got[0].Score {
		t.Errorf("what both others have first is outvoted: %v", ids(got))
	}
	for i, want := range []bool{false, false, true} {
		if fusion.TrustApplies(two, i) != want {
			t.Errorf("list %d is trusted: %v", i, !want)
		}
	}
}
