package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
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

const (
	// quoted is how long an error may be that is its caller's fault, since it may quote what was sent; explained is for the others.
	quoted    = 200 // bytes
	explained = 1000
	// named is how many violations are named.
	named = 16
)

var (
	errInternal = status.Error(codes.Internal, "internal error; the server's log has the cause")
	errDeadline = status.Error(codes.DeadlineExceeded, "the deadline passed before the work was done")
	errCanceled = status.Error(codes.Canceled, "the call was cancelled")
)

// Ended is how a call ended, as its caller is told: nil, or a gRPC status that leaks nothing and is not long. Only a bare gRPC status
// passes: one wrapped in another error would send that error's whole text along. What ends because the deadline passes says so,
// whichever part of the way has noticed it first.
func Ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st, bare := err.(interface{ GRPCStatus() *status.Status }) //nolint:errorlint // a wrapped status must not pass
	late, ended := passed(ctx), ctx.Err() != nil
	if bare {
		switch code := st.GRPCStatus().Code(); {
		case late && (code == codes.DeadlineExceeded || code == codes.Canceled):
			return errDeadline
		default:
			return short(st.GRPCStatus())
		}
	}
	switch {
	case late, errors.Is(err, context.DeadlineExceeded):
		return errDeadline
	case ended, errors.Is(err, context.Canceled):
		return errCanceled
	}
	return errInternal
}

// passed says whether a context's deadline has passed, even if its timer has yet to fire.
func passed(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ok && !time.Now().Before(at) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// short bounds the texts of a status.
func short(st *status.Status) error {
	most := explained
	switch st.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		most = quoted
	}
	out := status.New(st.Code(), Cut(st.Message(), most))
	for _, detail := range st.Details() {
		message, ok := detail.(protoadapt.MessageV1)
		if !ok {
			continue // of a kind that this program does not know
		}
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			first := &errdetails.BadRequest{}
			for _, v := range bad.GetFieldViolations()[:min(named, len(bad.GetFieldViolations()))] {
				first.FieldViolations = append(first.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: Cut(v.GetField(), quoted), Description: Cut(v.GetDescription(), quoted)})
			}
			message = first
		}
		if with, err := out.WithDetails(message); err == nil {
			out = with
		}
	}
	return out.Err()
}

// Cut shortens a text to so many bytes at most, and a sign that there was more.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
