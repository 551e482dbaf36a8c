package mcpserver

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

// reason bounds what an advice quotes of the gateway's message, in bytes, so that the advice itself is never cut.
const reason = 120

// advice turns a gateway's error into a text for a model: what is wrong, and what to do next.
func advice(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return errors.New("the memory service cannot be reached now. Go on without it, and say so if it matters")
	}
	said := rpc.Cut(st.Message(), reason)
	switch st.Code() {
	case codes.InvalidArgument, codes.OutOfRange:
		return errors.New("not accepted: " + said + ". Correct that and call again")
	case codes.NotFound:
		return errors.New(said + ". Use recall or list to find the right id")
	case codes.Aborted:
		if strings.HasPrefix(said, "expected_revision") {
			return errors.New(said + ". Nothing was changed: read the memory with list and its id, then decide")
		}
		return errors.New(said + ". Nothing was changed: call again")
	case codes.FailedPrecondition:
		return errors.New(said + ". Nothing was changed, and the same call will fail again")
	case codes.AlreadyExists:
		return errors.New(said + ". Use another idempotency_key for another memory")
	case codes.PermissionDenied, codes.Unauthenticated:
		return errors.New("not allowed: " + said + ". Do not try again; tell the user")
	case codes.ResourceExhausted:
		return errors.New("too much at a time: " + said + ". Wait before you call again, and ask for less")
	case codes.Canceled:
		return errors.New("the call was broken off, perhaps because the memory service stops. Go on without it; later, list shows whether something was stored")
	case codes.DeadlineExceeded:
		return errors.New("the memory service did not answer in time. Go on without it, say so if it matters, and try again later")
	case codes.Unavailable:
		return errors.New("the memory service cannot be reached now. Go on without it, say so if it matters, and try again later")
	}
	return errors.New("the memory service failed; its log has the cause. Go on without it, and say so if it matters")
}
