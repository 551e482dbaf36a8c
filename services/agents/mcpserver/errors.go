package mcpserver

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// advice turns a gateway's error into a text for a model: what is wrong, and what to do next.
func advice(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return errors.New("the memory service cannot be reached now. Go on without it, and say so if it matters")
	}
	switch st.Code() {
	case codes.InvalidArgument:
		return errors.New("not accepted: " + st.Message() + ". Correct that and call again")
	case codes.NotFound:
		return errors.New(st.Message() + ". Use recall or list to find the right id")
	case codes.Aborted:
		return errors.New(st.Message() + ". The memory has changed since you read it: read it again with list and its id, then decide")
	case codes.AlreadyExists:
		return errors.New(st.Message() + ". Use another idempotency_key for another memory")
	case codes.PermissionDenied, codes.Unauthenticated:
		return errors.New("not allowed: " + st.Message() + ". Do not try again; tell the user")
	case codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted:
		return errors.New("the memory service did not answer in time. Go on without it, say so if it matters, and try again later")
	}
	return errors.New("the memory service failed; its log has the cause. Go on without it, and say so if it matters")
}
