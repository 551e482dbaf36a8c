package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/services/agents/internal/render"
)

// answerFlag is for commands that print the answer to one call.
type answerFlag struct {
	JSON bool `help:"Print the server's answer as JSON."`
}

// jsonFlag is for commands that print a result.
type jsonFlag struct {
	JSON bool `help:"Print the result as JSON."`
}

func (e *Env) print(text string) error {
	_, err := io.WriteString(e.Out, text)
	return err
}

// show prints a value as indented JSON if the user asked for that, else as text.
func (e *Env) show(asJSON bool, value any, text string) error {
	if asJSON {
		return e.encode(value, "  ")
	}
	return e.print(text)
}

// answer returns the error of a call, or else shows the call's answer. Value and text are made in both cases: an answer that is missing reads
// as an empty one.
func (e *Env) answer(err error, asJSON bool, value any, text string) error {
	if err != nil {
		return err
	}
	return e.show(asJSON, value, text)
}

// showLine prints a value as a line of JSON if the user asked for that, else as text.
func (e *Env) showLine(asJSON bool, value any, text string) error {
	if asJSON {
		return e.encode(value, "")
	}
	return e.print(text)
}

func (e *Env) encode(value any, indent string) error {
	if m, ok := value.(proto.Message); ok {
		value = apiMessage{m}
	}
	encoder := json.NewEncoder(e.Out)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// apiMessage is a message of the API as JSON, with the field names of the .proto files.
type apiMessage struct{ proto.Message }

func (m apiMessage) MarshalJSON() ([]byte, error) { return render.JSONLine(m.Message) }

func showLines[T any](env *Env, items []T) error {
	for _, item := range items {
		if err := env.showLine(true, item, ""); err != nil {
			return err
		}
	}
	return nil
}

// showList prints items as they come, up to a limit of more than 0: as lines of JSON, or as draw returns them. Without items it
// prints the text none.
func showList[T any](env *Env, asJSON bool, items iter.Seq2[T, error], limit int, none string, draw func(T) string) error {
	listed := 0
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := env.showLine(asJSON, item, draw(item)); err != nil {
			return err
		}
		if listed++; listed == limit {
			break
		}
	}
	if listed == 0 && !asJSON {
		return env.print(none)
	}
	return nil
}

// pages returns the items of all pages that read returns, each by the token that the page before it gave.
func pages[T any](read func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token, more := "", true; more; more = token != "" {
			items, next, err := read(token)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			token = next
		}
	}
}

// pageSize returns how many items a call asks for, to print up to limit of them. Limit 0 means all.
func pageSize(limit int) *int32 {
	if limit <= 0 {
		limit = mostPaged
	}
	return new(int32(min(limit, mostPaged)))
}

const mostPaged = 500

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
		bad, _ := detail.(*errdetails.BadRequest)
		for i, violation := range bad.GetFieldViolations() {
			if i > 0 {
				b.WriteString("\n  " + render.Plain(violation.GetField()+": "+violation.GetDescription()))
			}
		}
	}
	return b.String()
}
