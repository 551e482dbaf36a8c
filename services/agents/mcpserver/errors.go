package mcpserver

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

// reason bounds what an advice quotes of the gateway's message, in bytes, so that the advice itself is never cut.
const reason = 120

// advices say by the code of the gateway's error what is wrong, with the gateway's message in place of %s, and what to do next.
var advices = map[codes.Code]string{
	codes.InvalidArgument:    "not accepted: %s. Correct that and call again",
	codes.OutOfRange:         "not accepted: %s. Correct that and call again",
	codes.NotFound:           "%s. Use recall or list to find the right id",
	codes.Aborted:            "%s. Nothing was changed: call again",
	codes.FailedPrecondition: "%s. Nothing was changed, and the same call will fail again",
	codes.AlreadyExists:      "%s. Use another idempotency_key for another memory",
	codes.PermissionDenied:   "not allowed: %s. Do not try again; tell the user",
	codes.Unauthenticated:    "not allowed: %s. Do not try again; tell the user",
	codes.ResourceExhausted:  "not now: %s. Wait before you call again, and tell the user if it lasts",
	codes.Canceled:           "the call was broken off, perhaps because the memory service stops. Go on without it; later, list shows whether something was stored",
	codes.DeadlineExceeded:   "the memory service did not answer in time. Go on without it, say so if it matters, and try again later",
	codes.Unavailable:        "the memory service cannot be reached now. Go on without it, say so if it matters, and try again later",
}

// arguments are the gateway's fields, each followed by what agents call it.
var arguments = []string{
	"memory.", "", "replacement.", "", "filter.", "", "namespaces[0]", "namespace", "tags_any", "tags",
	"created_from", "since", "created_before", "before", "occurred_from", "occurred_since",
}

// named says what the gateway said, about an agent's argument instead of the gateway's field. Those of renamed are called otherwise than
// in the tools.
func named(said string, renamed ...string) string {
	field, must, found := strings.Cut(said, ": ")
	switch {
	case !found:
		return said
	case field == "update_mask":
		return "give at least one field to change"
	}
	return strings.NewReplacer(slices.Concat(arguments, renamed)...).Replace(field) + ": " + must
}

func advice(err error, renamed ...string) error {
	st, ok := status.FromError(err)
	if !ok {
		return errors.New("the memory service cannot be reached now. Go on without it, and say so if it matters")
	}
	text := cmp.Or(advices[st.Code()], "the memory service failed; its log has the cause. Go on without it, and say so if it matters")
	said := rpc.Cut(named(st.Message(), renamed...), reason)
	if st.Code() == codes.Aborted && strings.HasPrefix(said, "expected_revision") {
		text = "%s. Nothing was changed: read the memory with list and its id, then decide"
	}
	return errors.New(strings.Replace(text, "%s", said, 1))
}

// refused is an advice where the protocol has no result to put it into. Clients tell by its code whether they asked for something wrong.
func refused(err error, renamed ...string) error {
	code := int64(jsonrpc.CodeInternalError)
	if c := status.Code(err); c == codes.InvalidArgument || c == codes.OutOfRange {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: advice(err, renamed...).Error()}
}
