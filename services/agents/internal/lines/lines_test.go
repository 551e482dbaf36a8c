package lines_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/triskele/triskele/services/agents/internal/lines"
)

func TestAll(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	var got []string
	for line, err := range lines.All(strings.NewReader("\ufeffone\r\n\n  two \n"+long+"\nfour"), 80_000) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(line.Number, " ", string(line.Text), " ", line.Long, " ", line.End))
	}
	want := []string{"1 one false 8", "3 two false 16", "4  true 100017", "5 four false 100021"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	broken := errors.New("broken")
	for line, err := range lines.All(io.MultiReader(strings.NewReader("half a li"), iotest.ErrReader(broken)), 100) {
		if !errors.Is(err, broken) {
			t.Errorf("got %q, %v, want the reader's error alone", line.Text, err)
		}
	}
}
