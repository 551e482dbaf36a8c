package rpc

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/resilience"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestManyViolations: a small request with thousands of violations makes no large error.
func TestManyViolations(t *testing.T) {
	request := &triskelev1.RecallRequest{Namespaces: make([]string, 2000), Query: "q"}
	if size := proto.Size(request); size > maxExplained {
		t.Fatalf("the request has %d bytes, want at most %d", size, maxExplained)
	}
	st := status.Convert(validate(request))
	bad, ok := st.Details()[0].(*errdetails.BadRequest)
	if got := len(bad.GetFieldViolations()); !ok || got != named {
		t.Errorf("the error names %d violations, want %d", got, named)
	}
	if want := "(and 2001 more)"; !strings.HasSuffix(st.Message(), want) {
		t.Errorf("got %q, want it to end in %q", st.Message(), want)
	}
}

// TestPartAway: a service that lacks a part of its database is well, also in the eyes of another process.
func TestPartAway(t *testing.T) {
	err := Ended(t.Context(), PartAway("a node is away"))
	if got := status.Code(err); got != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", got)
	}
	if got := Outcome(err, time.Second, leastPatience); got != nil {
		t.Errorf("a circuit breaker counts %v, want a success", got)
	}
	if got := Outcome(status.Error(codes.Unavailable, "away"), time.Second, leastPatience); got != resilience.ErrFailure {
		t.Errorf("a circuit breaker counts %v of a service that is away, want a failure", got)
	}
}
