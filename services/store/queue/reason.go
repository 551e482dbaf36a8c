package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/triskele/triskele/fuser/platform/endpoint"
)

// reason is what is kept, logged and shown of an indexer's error. An error may quote what it failed on, as an embedding
// server's answer or a database's message does, so its own text is never used: only what says by its type that it is no
// text of a memory. An error that knows better words implements Public() string.
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

// innermost follows the chain of wrapped errors, at each join the first branch.
func innermost(err error) error {
	for {
		switch wrapper := err.(type) { //nolint:errorlint // this is what walks the chain
		case interface{ Unwrap() error }:
			inner := wrapper.Unwrap()
			if inner == nil {
				return err
			}
			err = inner
		case interface{ Unwrap() []error }:
			inner := wrapper.Unwrap()
			if len(inner) == 0 {
				return err
			}
			err = inner[0]
		default:
			return err
		}
	}
}
