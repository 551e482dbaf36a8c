package hook

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/slice"
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

// Kind is what an event asks for. Agents call their events differently.
type Kind string

const (
	Begins   Kind = "begin"  // of a session
	Prompted Kind = "prompt" // by the user
	Said     Kind = "said"   // by the agent, or its session ends
)

func (e event) kind() Kind {
	switch e.Name {
	case "SessionStart":
		return Begins
	case "Stop", "PreCompact", "SessionEnd", "AfterAgent", "PreCompress":
		return Said
	}
	return Prompted
}

// The memory service is why there is no answer.
var (
	errDown     = fmt.Errorf("%w is down", ErrService)
	errBusy     = fmt.Errorf("%w has too much to do", ErrService)
	errContents = fmt.Errorf("%w found memories, but could not read them", ErrService)
)

// Outcome returns one word for how an event ended: ok, nothing to say, down, late, busy, without contents, or failed.
func Outcome(err error) string {
	for of, word := range map[error]string{
		nil: "ok", errNothing: "nothing", errIrrelevant: "nothing", errKnown: "nothing", errDown: "down", errLate: "late", errBusy: "busy", errContents: "no_contents",
	} {
		if errors.Is(err, of) {
			return word
		}
	}
	return "failed"
}

var errIgnored = errors.New("there is nothing to do for this event")

// failure names the reason of a failed call.
func failure(err error) error {
	if errors.Is(err, ErrService) {
		return err // the service could not be asked
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%w: %s", errDown, st.Message())
	case codes.DeadlineExceeded, codes.Canceled:
		return errLate
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", errBusy, st.Message())
	}
	return errors.New(st.Message())
}

func (e event) reply(ctx context.Context, open func(context.Context) (Recaller, error), config Config) (answer, error) {
	switch e.kind() {
	case Begins:
		if config.Begin == nil || e.Source == "resume" || e.Source == "fork" { // such a session has all that was said
			return answer{}, errIgnored
		}
		if config.Forgets != nil && e.ID != "" {
			config.Forgets(e.Session)
		}
		hits, err := config.Begin(ctx, e.Session)
		if err != nil {
			return answer{}, failure(err)
		}
		return e.brief(&triskelev1.RecallResponse{Hits: hits}, config, Knowledge{}, errNothing)
	case Said:
		if config.Forgets != nil && e.ID != "" && (e.Name == "PreCompact" || e.Name == "PreCompress") {
			config.Forgets(e.Session)
		}
		if config.Said == nil {
			return answer{}, errIgnored
		}
		if e.Transcript == "" {
			return answer{}, errors.New("the event has no transcript")
		}
		if err := config.Said(e.Session, e.Name == "SessionEnd"); err != nil {
			return answer{}, failure(err)
		}
		return answer{}, nil
	}
	return e.prompted(ctx, open, config)
}

// brief writes hits that the agent does not have as it expects them, or returns none if there is nothing to write.
func (e event) brief(resp *triskelev1.RecallResponse, config Config, known Knowledge, none error) (answer, error) {
	brief := briefing.New(resp, briefing.Options{MaxTokens: config.MaxTokens, Has: func(m *triskelev1.Memory, content string) bool {
		return slices.Contains(known.Given, shown(m, content))
	}})
	var out answer
	if e.ID != "" {
		out.given = slice.Map(brief.Entries, func(entry briefing.Entry) string { return shown(entry.Hit.GetMemory(), entry.Content) })
	}
	switch {
	case brief.Had > 0 && brief.Text == "":
		return answer{}, errKnown
	case brief.Omitted > 0 && brief.Text == "":
		return answer{}, errors.New("no memory fits into --max-tokens")
	case brief.Text == "":
		return answer{}, none
	case config.Text:
		out.text = []byte(brief.Text)
		return out, nil
	}
	text, err := e.answer(brief.Text)
	out.text = text
	return out, err
}

// shown names what is shown of a memory.
func shown(m *triskelev1.Memory, content string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(content))
	return fmt.Sprintf("%s@%x", m.GetId(), hash.Sum64())
}
