package graph

import (
	"math/rand/v2"
	"testing"
)

// TestDot compares inner products of all lengths with additions one by one, the largest components included.
func TestDot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		a, b, want := make([]int8, n), make([]int8, n), int32(0)
		for i := range a {
			a[i], b[i] = int8(random.Int()), int8(random.Int())
			if n%3 == 0 {
				a[i], b[i] = -128, -128
			}
			want += int32(a[i]) * int32(b[i])
		}
		if got := dot(a, b); got != want {
			t.Errorf("%d components: got %d, want %d", n, got, want)
		}
	}
}
