package stats_test

import (
	"strings"
	"testing"

	"github.com/triskele/triskele/tests/lab/stats"
)

// The halves are about equal, and neither depends on the order nor on the other set.
func TestTuning(t *testing.T) {
	t.Parallel()
	tuning, agree := 0, 0
	for i := range 1000 {
		id := "q" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		if stats.Tuning("set", id) {
			tuning++
		}
		if stats.Tuning("set", id) == stats.Tuning("other", id) {
			agree++
		}
	}
	if tuning < 400 || tuning > 600 || agree < 400 || agree > 600 {
		t.Errorf("%d of 1000 queries are for tuning, %d alike in another set", tuning, agree)
	}
}
