package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/triskele/triskele/fuser/platform/endpoint"
)

// reason returns the text of an indexer's error that is stored, logged and shown. An error may quote a memory, as
// answers of embedding servers and databases do. Only texts that are safe by their type are used. An error offers one
// with Public() string.
func reason(err error) string {
	var public interface{ Public() string }
	var postgres interface{ SQLState() string }
	var sqlite interface{ Code() int }
	switch {
	case errors.As(err, &public):
		return public.Public()
	case errors.Is(err, endpoint.ErrWithdrawn):
		return endpoint.ErrWithdrawn.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &postgres):
		return "PostgreSQL error " + postgres.SQLState()
	case errors.As(err, &sqlite):
		return fmt.Sprintf("SQLite error %d", sqlite.Code())
	}
	return fmt.Sprintf("error of type %T", innermost(err))
}

// innermost follows the chain of wrapped errors, and the first of each join.
func innermost(err error) error {
	inner := errors.Unwrap(err)
	if joined, is := err.(interface{ Unwrap() []error }); is && len(joined.Unwrap()) > 0 { //nolint:errorlint // this is what walks the chain
		inner = joined.Unwrap()[0]
	}
	if inner == nil {
		return err
	}
	return innermost(inner)
}
