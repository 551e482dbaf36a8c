package lexical

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestDictionary compares a dictionary with a map while terms come and go.
func TestDictionary(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 3))
	d, want, names := newDictionary(), map[string]uint32{}, map[uint32]string{}
	named := func(number uint32, name []byte) bool { return names[number] == string(name) }
	for step := range 50_000 {
		name := strings.Repeat("x", random.IntN(12)) + fmt.Sprint(random.IntN(300+step/50))
		if step%3 == 0 {
			name = strings.Repeat("\x00", 1+random.IntN(10)) // of equal bytes
		}
		at, s, found := d.find([]byte(name), named)
		if number, known := want[name]; found != known || known && s.number != number {
			t.Fatalf("after %d steps %q: got %d, %v, want %d, %v", step, name, s.number, found, number, known)
		}
		switch {
		case !found:
			s.number = uint32(step)
			want[name], names[s.number] = s.number, name
			d.add(at, s)
		case random.IntN(2) == 0:
			d.remove(at)
			delete(want, name)
			delete(names, s.number)
		}
		if step%1000 != 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if _, s, found := d.find([]byte(name), named); !found || s.number != want[name] {
				t.Fatalf("after %d steps %q: got %d, %v, want %d", step, name, s.number, found, want[name])
			}
		}
	}
	if d.used != len(want) {
		t.Errorf("%d slots are used, want %d", d.used, len(want))
	}
}
