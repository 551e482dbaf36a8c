package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// Invalid returns an INVALID_ARGUMENT error that names the field and says what it must be.
func Invalid(field, mustBe string) error {
	return invalid([]*errdetails.BadRequest_FieldViolation{{Field: field, Description: mustBe}}, 0)
}

// Blank reports whether a text has nothing to read: only white space and characters without width.
func Blank(text string) bool {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }) == ""
}

// InMessage adds to an error about a request's fields which message of a stream has them, unless that is the first.
func InMessage(number int, err error) error {
	code := status.Code(err)
	if number == 1 || code != codes.InvalidArgument && code != codes.AlreadyExists {
		return err
	}
	about := status.Convert(err).Proto()
	about.Message = fmt.Sprintf("message %d: %s", number, about.GetMessage())
	return status.ErrorProto(about)
}

const partAway = "PART_AWAY"

// PartAway returns an UNAVAILABLE error about the request's namespace alone: circuit breakers do not count it against the service.
func PartAway(message string) error { return unavailable(partAway, message) }

// StoreAway returns an UNAVAILABLE error of a service that answers, but cannot reach its database.
func StoreAway(message string) error { return unavailable("STORE_AWAY", message) }

func unavailable(reason, message string) error {
	st, _ := status.New(codes.Unavailable, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "triskele"}) // never fails
	return st.Err()
}

// IsPartAway reports whether an error is a PartAway, here or from another process.
func IsPartAway(err error) bool {
	if status.Code(err) != codes.Unavailable {
		return false
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == partAway {
			return true
		}
	}
	return false
}

// invalid returns an error that names these violations and says how many more there are.
func invalid(violations []*errdetails.BadRequest_FieldViolation, more int) error {
	first := violations[0]
	message := first.Description
	if first.Field != "" {
		message = first.Field + ": " + message
	}
	if more += len(violations) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	st, err := status.New(codes.InvalidArgument, message).WithDetails(&errdetails.BadRequest{FieldViolations: violations})
	if err != nil {
		return status.Error(codes.InvalidArgument, message)
	}
	return st.Err()
}

// FromViolations turns protovalidate's violations into an INVALID_ARGUMENT error. It names the first ones and counts the
// others. field names the message, "" for the request. Another error, or nil, is returned unchanged.
func FromViolations(field string, err error) error {
	var found *protovalidate.ValidationError
	if !errors.As(err, &found) || len(found.Violations) == 0 {
		return err
	}
	if field != "" {
		field += "."
	}
	first := found.Violations[:min(named, len(found.Violations))]
	out := make([]*errdetails.BadRequest_FieldViolation, 0, len(first))
	for _, v := range first {
		for _, element := range v.Proto.GetField().GetElements() {
			if element.GetStringKey() != "" { // a map's key may be private, and error texts get into spans
				element.Subscript = nil
			}
		}
		path, text := protovalidate.FieldPathString(v.Proto.GetField()), described(v)
		// The text of a rule for a whole message begins with the name of the field that breaks it.
		if name, rest, ok := strings.Cut(text, ": "); ok && len(v.Proto.GetRule().GetElements()) == 0 {
			path, text = strings.TrimPrefix(path+"."+name, "."), rest
		}
		if path != "" {
			path = field + path
		}
		out = append(out, &errdetails.BadRequest_FieldViolation{Field: path, Description: text})
	}
	return invalid(out, len(found.Violations)-len(first))
}

// described says what is wrong with a value. It puts three rules into words. The contract's only pattern is that of namespaces. Its
// texts may have all characters but NUL, and its enums all values but the first.
func described(v *protovalidate.Violation) string {
	switch rule := v.Proto.GetRuleId(); {
	case rule == "string.pattern" && v.FieldValue.IsValid() && v.FieldValue.String() == "":
		return "is missing: name a namespace"
	case rule == "string.pattern":
		return "must be lower-case letters, digits, '.', '_' and '-', in parts divided by '/', such as team/project"
	case rule == "string.not_contains":
		return "must not contain a NUL character"
	case rule == "enum.not_in":
		var names []string
		for values, i := v.FieldDescriptor.Enum().Values(), 1; i < values.Len(); i++ {
			names = append(names, string(values.Get(i).Name()))
		}
		return "is missing: must be one of " + strings.Join(names, ", ")
	}
	return v.Proto.GetMessage()
}

const (
	// quoted bounds the text of an error by the caller's fault, which may quote the request. explained bounds the
	// others.
	quoted    = 200 // bytes
	explained = 1000
	// named bounds the violations in an error.
	named = 16
)

var (
	errInternal = status.Error(codes.Internal, "internal error; the server's log has the cause")
	errDamaged  = status.Error(codes.DataLoss, "something stored cannot be decoded; the server's log has the cause")
	errDeadline = status.Error(codes.DeadlineExceeded, "the deadline passed before the work was done")
	errCanceled = status.Error(codes.Canceled, "the call was cancelled")
)

// Ended turns a call's error into one for the caller: nil, or a short gRPC status that leaks nothing. Only a bare status passes,
// since a wrapped one would send the whole text of its wrapper. CANCELLED and internal errors after the deadline become
// DEADLINE_EXCEEDED. An error with a method Damaged becomes DATA_LOSS.
func Ended(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st, bare := err.(interface{ GRPCStatus() *status.Status }) //nolint:errorlint // a wrapped status must not pass
	late, ended := passed(ctx), ctx.Err() != nil
	if bare {
		if code := st.GRPCStatus().Code(); late && (code == codes.DeadlineExceeded || code == codes.Canceled) {
			return errDeadline
		}
		return short(st.GRPCStatus())
	}
	var damaged interface{ Damaged() }
	switch {
	case errors.As(err, &damaged):
		return errDamaged
	case late, errors.Is(err, context.DeadlineExceeded):
		return errDeadline
	case ended, errors.Is(err, context.Canceled):
		return errCanceled
	}
	return errInternal
}

// passed reports whether a deadline has passed, even if its timer has not fired yet.
func passed(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ok && !time.Now().Before(at) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

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
			continue // of an unknown type
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

// Cut shortens a text to at most most bytes, and then appends "…".
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
