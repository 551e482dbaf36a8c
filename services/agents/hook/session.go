package hook

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
)

// Session says where an event comes from. Agents that have no such field leave it empty.
type Session struct {
	ID         string `json:"session_id"`
	Transcript string `json:"transcript_path"` // a file
	Folder     string `json:"cwd"`
}

// ErrService is in every error for which the memory service is the reason.
var ErrService = errors.New("the memory service")

var (
	errContents   = fmt.Errorf("%w found memories, but could not read them", ErrService)
	errTranscript = errors.New("the event has no transcript")
	errIgnored    = errors.New("there is nothing to do for this event")
)

// failure names the reason of a failed call.
func failure(err error) error {
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%w is down: %s", ErrService, st.Message())
	case codes.DeadlineExceeded, codes.Canceled:
		return errLate
	case codes.ResourceExhausted:
		return fmt.Errorf("%w has too much to do: %s", ErrService, st.Message())
	}
	return errors.New(st.Message())
}

// reply answers an event by its kind. Events are called differently in Claude Code and Codex, and in Gemini CLI.
func (e event) reply(ctx context.Context, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	switch e.Name {
	case "SessionStart":
		if config.Begin == nil || e.Source == "resume" { // a resumed session has all that was said
			return nil, errIgnored
		}
		hits, err := config.Begin(ctx, e.Session)
		if err != nil {
			return nil, failure(err)
		}
		return e.brief(&triskelev1.RecallResponse{Hits: hits}, config, errNothing)
	case "Stop", "PreCompact", "SessionEnd", "AfterAgent", "PreCompress":
		if config.Said == nil {
			return nil, errIgnored
		}
		if e.Transcript == "" {
			return nil, errTranscript
		}
		return nil, config.Said(e.Session)
	}
	return e.prompted(ctx, open, config)
}

// brief writes hits as the agent expects them, or returns none if there is nothing to write.
func (e event) brief(resp *triskelev1.RecallResponse, config Config, none error) ([]byte, error) {
	brief := briefing.New(resp, briefing.Options{MaxTokens: config.MaxTokens})
	switch {
	case brief.Text == "":
		return nil, none
	case config.Text:
		return []byte(brief.Text), nil
	}
	return e.answer(brief.Text)
}
