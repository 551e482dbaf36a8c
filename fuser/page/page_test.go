package page

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/proto/client"
)

func TestFail(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		err  error
		code int
		says string
	}{
		{status.Error(codes.InvalidArgument, "limit"), 400, "limit"},
		{status.Error(codes.Unauthenticated, "a token"), 401, "a token"},
		{status.Error(codes.ResourceExhausted, "too many"), 429, "too many"}, // callers wait, operators need not
		{status.Error(codes.Unavailable, "no leg"), 503, "no leg"},
		{status.Error(codes.DeadlineExceeded, "late"), 504, "late"},
		{errors.New("a secret path"), 500, "internal error"},
	} {
		w := httptest.NewRecorder()
		fail(w, x.err)
		if w.Code != x.code || !strings.Contains(w.Body.String(), x.says) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %s", x.err, w.Code, w.Body)
		}
	}
}

// The page and the command line call the same probabilities likely, and maybe.
func TestPageNamesRelevanceAsClientsDo(t *testing.T) {
	script, err := assets.ReadFile("assets/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`probability >= %v ? "likely" : probability >= %v ? "maybe" : "unlikely"`, client.Likely, client.Maybe); !strings.Contains(string(script), want) {
		t.Errorf("page.js lacks %s", want)
	}
}
