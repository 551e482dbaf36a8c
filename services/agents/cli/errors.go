package cli

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/services/agents/internal/render"
)

// message formats an error for people. It strips the wrapping of a gRPC status. It lists field violations after the first,
// which the message already has.
func message(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return err.Error()
	}
	var remote interface{ GRPCStatus() *status.Status }
	text := err.Error()
	if errors.As(err, &remote) {
		// Keep the text around the status, drop its "rpc error: code = ...".
		inner := remote.GRPCStatus()
		text = strings.ReplaceAll(text, inner.String(), inner.Message())
		text = strings.ReplaceAll(text, inner.Err().Error(), inner.Message())
	}
	var b strings.Builder
	b.WriteString(render.Plain(text))
	for _, detail := range st.Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok || len(bad.GetFieldViolations()) == 0 {
			continue
		}
		for _, violation := range bad.GetFieldViolations()[1:] {
			b.WriteString("\n  " + render.Plain(violation.GetField()+": "+violation.GetDescription()))
		}
	}
	return b.String()
}
