package rpc

import (
	"context"
	"errors"
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Invalid returns an INVALID_ARGUMENT error that names the field and says what it must be.
func Invalid(field, mustBe string) error {
	return invalid([]*errdetails.BadRequest_FieldViolation{{Field: field, Description: mustBe}})
}

func invalid(violations []*errdetails.BadRequest_FieldViolation) error {
	first := violations[0]
	message := first.Description
	if first.Field != "" {
		message = first.Field + ": " + message
	}
	if more := len(violations) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	st, err := status.New(codes.InvalidArgument, message).WithDetails(&errdetails.BadRequest{FieldViolations: violations})
	if err != nil {
		return status.Error(codes.InvalidArgument, message)
	}
	return st.Err()
}

// FromViolations turns what protovalidate found in the message called field ("" for a whole request) into an
// INVALID_ARGUMENT error; another error, or none, is returned as it is.
func FromViolations(field string, err error) error {
	var found *protovalidate.ValidationError
	if !errors.As(err, &found) || len(found.Violations) == 0 {
		return err
	}
	if field != "" {
		field += "."
	}
	out := make([]*errdetails.BadRequest_FieldViolation, 0, len(found.Violations))
	for _, v := range found.Violations {
		for _, element := range v.Proto.GetField().GetElements() {
			if element.GetStringKey() != "" { // of a map: it may be private, and an error's words get into spans
				element.Subscript = nil
			}
		}
		path := protovalidate.FieldPathString(v.Proto.GetField())
		if path != "" {
			path = field + path
		}
		out = append(out, &errdetails.BadRequest_FieldViolation{Field: path, Description: v.Proto.GetMessage()})
	}
	return invalid(out)
}

// public returns the error a client may see, and whether the cause is an internal one that belongs in the log. Only a
// bare gRPC status passes: one wrapped in another error would send that error's whole text along.
func public(ctx context.Context, err error) (out error, internal bool) {
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok { //nolint:errorlint // a wrapped status must not pass
		return err, status.Code(err) == codes.Internal
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the deadline passed before the work was done"), false
	case errors.Is(err, context.Canceled), errors.Is(ctx.Err(), context.Canceled):
		return status.Error(codes.Canceled, "the call was cancelled"), false
	}
	return status.Error(codes.Internal, "internal error; the server's log has the cause"), true
}
