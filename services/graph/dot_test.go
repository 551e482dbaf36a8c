package graph

import (
	"math/rand/v2"
	"testing"
)

// TestDot compares inner products of all lengths with additions one by one, the largest components included.
func TestDot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		a, b, want := make(code, n), make(code, n), int32(0)
		for i := range a {
			a[i], b[i] = byte(random.Int()), byte(random.Int())
			if n%3 == 0 {
				a[i], b[i] = 128, 128 // the least signed byte
			}
			want += int32(int8(a[i])) * int32(int8(b[i]))
		}
		if got := dot(a, b); got != want {
			t.Errorf("%d components: got %d, want %d", n, got, want)
		}
	}
}
