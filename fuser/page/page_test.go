package page

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
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

// The page's scripts send only fields that the contract has: the gateway refuses others.
func TestPageKnowsTheContract(t *testing.T) {
	known := map[string]bool{}
	for _, message := range []proto.Message{&triskelev1.RecallRequest{}, &triskelev1.Filter{}, &triskelev1.Fusion{}} {
		for fields, i := message.ProtoReflect().Descriptor().Fields(), 0; i < fields.Len(); i++ {
			known[string(fields.Get(i).Name())] = true
		}
	}
	recalls := 0
	for _, name := range []string{"page.js", "memories.js"} {
		script, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range regexp.MustCompile(`(?s)namespaces: \[.*?}\)`).FindAll(script, -1) {
			recalls++
			for _, key := range regexp.MustCompile(`([a-z_]+): `).FindAllSubmatch(request, -1) {
				if !known[string(key[1])] {
					t.Errorf("%s sends %s, which is no field of a recall", name, key[1])
				}
			}
		}
	}
	if recalls != 3 {
		t.Errorf("found %d recalls in the scripts, want 3", recalls)
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
