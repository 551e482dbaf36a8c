package clip_test

import (
	"testing"

	"github.com/triskele/triskele/fuser/platform/clip"
)

func TestText(t *testing.T) {
	for _, x := range []struct {
		text string
		n    int
		want string
	}{{"abc", 9, "abc"}, {"abc", 2, "ab"}, {"aé", 3, "aé"}, {"aé", 2, "a"}, {"日本", 0, ""}, {"日本", 5, "日"}} {
		if got := clip.Text(x.text, x.n); got != x.want {
			t.Errorf("the first %d bytes of %s: got %q, want %q", x.n, x.text, got, x.want)
		}
	}
}
