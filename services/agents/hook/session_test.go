package hook_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/hook"
)

func TestSessionStart(t *testing.T) {
	t.Parallel()
	config := usual
	config.Begin = func(_ context.Context, s hook.Session) ([]*triskelev1.Hit, error) {
		if s.Folder == "/empty" {
			return nil, nil
		}
		return []*triskelev1.Hit{found("The crane is serviced in spring.", 0)}, nil
	}
	out, err := ask(t, `{"session_id":"s","transcript_path":"/t.jsonl","cwd":"/work","hook_event_name":"SessionStart","source":"startup"}`, nil, config)
	if err != nil || !strings.Contains(out, `{"hookEventName":"SessionStart","additionalContext":"`) || !strings.Contains(out, "The crane is serviced in spring.") {
		t.Errorf("got %s, %v", out, err)
	}
	for event, want := range map[string]string{
		`{"hook_event_name":"SessionStart","source":"resume"}`:                 "nothing to do",
		`{"hook_event_name":"SessionStart","source":"fork"}`:                   "nothing to do",
		`{"hook_event_name":"SessionStart","source":"startup","cwd":"/empty"}`: "nothing was found",
	} {
		if out, err := ask(t, event, nil, config); out != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %q", event, out, err, want)
		}
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	var got []hook.Session
	var ended []bool
	config := usual
	config.Said = func(s hook.Session, last bool) error {
		got = append(got, s)
		ended = append(ended, last)
		return nil
	}
	forgets := 0
	config.Forgets = func(hook.Session) { forgets++ }
	for _, name := range []string{"Stop", "PreCompact", "SessionEnd", "AfterAgent", "PreCompress"} {
		if out, err := ask(t, `{"session_id":"s","transcript_path":"/t.jsonl","cwd":"/work","hook_event_name":"`+name+`"}`, nil, config); out != "" || err != nil {
			t.Errorf("%s: got %q, %v", name, out, err)
		}
	}
	if want := (hook.Session{ID: "s", Transcript: "/t.jsonl", Folder: "/work"}); len(got) != 5 || got[0] != want || got[4] != want {
		t.Errorf("got %v, want %v five times", got, want)
	}
	if want := []bool{false, false, true, false, false}; !slices.Equal(ended, want) {
		t.Errorf("the session ended with %v, want %v", ended, want)
	}
	if forgets != 2 {
		t.Errorf("the agent forgot %d times, want 2", forgets)
	}
	if _, err := ask(t, `{"hook_event_name":"Stop","transcript_path":null}`, nil, config); err == nil || !strings.Contains(err.Error(), "no transcript") {
		t.Errorf("without a transcript: %v", err)
	}
}

// A session gets no turns that its agent still has, but those from before its last compaction.
func TestOwnTurns(t *testing.T) {
	t.Parallel()
	own, old, other := found("The crane was painted.", .9), found("The crane was moved.", .8), found("The crane was sold.", .7)
	own.Memory.Thread, old.Memory.Thread, other.Memory.Thread = "s", "s", "t"
	old.Memory.OccurredAt = timestamppb.New(own.GetMemory().GetCreatedAt().AsTime().Add(-time.Hour))
	forgot := usual
	forgot.Knows = func(s hook.Session) hook.Knowledge {
		return hook.Knowledge{Since: map[string]time.Time{"s": old.GetMemory().GetOccurredAt().AsTime()}[s.ID]}
	}
	for name, x := range map[string]struct {
		session string
		config  hook.Config
		want    []string
	}{
		"its own":          {"s", usual, []string{"sold"}},
		"after compaction": {"s", forgot, []string{"moved", "sold"}},
		"another":          {"u", forgot, []string{"painted", "moved", "sold"}},
		"none":             {"", forgot, []string{"painted", "moved", "sold"}},
	} {
		out, err := ask(t, `{"session_id":"`+x.session+`","prompt":"what about the crane"}`, answering(own, old, other), x.config)
		var got []string
		for _, word := range []string{"painted", "moved", "sold"} {
			if strings.Contains(out, word) {
				got = append(got, word)
			}
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, x.want)
		}
	}
	if out, err := ask(t, `{"session_id":"s","prompt":"what about the crane"}`, answering(own), usual); out != "" || hook.Outcome(err) != "nothing" {
		t.Errorf("nothing else: got %q, %v", out, err)
	}
}

// An agent gets nothing twice until it forgets, unless it has changed. What it has lets no weaker memory move up.
func TestGivenOnce(t *testing.T) {
	t.Parallel()
	painted, moved, sold := found("The crane was painted.", .9), found("The crane was moved.", .8), found("The crane was sold.", .7)
	painted.Memory.Id, moved.Memory.Id, sold.Memory.Id = "a", "b", "c"
	var given []string
	config := usual
	config.MaxTokens = 80 // two of them fit
	config.Knows = func(hook.Session) hook.Knowledge { return hook.Knowledge{Given: given} }
	config.Gives = func(_ hook.Session, more []string) { given = append(given, more...) }
	config.Forgets = func(hook.Session) { given = nil } // capture is off
	prompt := func(session string, want ...string) {
		t.Helper()
		out, err := ask(t, `{"session_id":"`+session+`","prompt":"what about the crane"}`, answering(painted, moved, sold), config)
		var got []string
		for _, word := range []string{"painted", "moved", "sold"} {
			if strings.Contains(out, word) {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, want) || (len(want) == 0) != (hook.Outcome(err) == "nothing") {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	prompt("s", "painted", "moved")
	prompt("s")
	moved.Memory.Content = "The crane was moved again."
	prompt("s", "moved")
	prompt("", "painted", "moved")
	prompt("", "painted", "moved")
	if _, err := ask(t, `{"session_id":"s","transcript_path":"/t.jsonl","hook_event_name":"PreCompact"}`, nil, config); err == nil {
		t.Error("a turn is stored")
	}
	prompt("s", "painted", "moved")
}

// The memory service is blamed for what is its own, and for nothing else.
func TestTrouble(t *testing.T) {
	t.Parallel()
	const crane = `{"session_id":"s","prompt":"when is the crane serviced"}`
	for name, x := range map[string]struct {
		event string
		r     recalls
		want  string
	}{
		"busy": {crane, failing(codes.ResourceExhausted), "has too much to do"},
		"down": {crane, func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return nil, status.Error(codes.Unavailable, "connection refused")
		}, "is down: connection refused"},
		"late": {crane, func(ctx context.Context, _ *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			<-ctx.Done()
			time.Sleep(time.Hour)
			return nil, ctx.Err()
		}, "does not answer in time"},
		"no contents": {crane, answering(&triskelev1.Hit{Id: "x", Score: .5}), "could not read"},
		"nothing":     {crane, answering(), ""},
		"irrelevant":  {crane, answering(found("Tea at four.", .01)), ""},
		"a command":   {`{"session_id":"s","prompt":"/clear"}`, nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var session hook.Session
			var trouble error
			config := usual
			config.Ended = func(s hook.Session, _ hook.Kind, err error) {
				if errors.Is(err, hook.ErrService) {
					session, trouble = s, err
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := hook.Answer(ctx, strings.NewReader(x.event), opened(x.r), config)
			cancel()
			time.Sleep(2 * time.Hour) // the deaf one ends too
			if err == nil || (trouble == nil) != (x.want == "") {
				t.Errorf("%s: got %v, trouble %v", name, err, trouble)
			} else if trouble != nil && (session.ID != "s" || !errors.Is(trouble, hook.ErrService) || !strings.Contains(trouble.Error(), x.want)) {
				t.Errorf("%s: got %v of %+v, want %q", name, trouble, session, x.want)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	const crane = `{"session_id":"s","prompt":"when is the crane serviced"}`
	for want, x := range map[string]struct {
		event string
		r     recalls
	}{
		"prompt ok":          {crane, answering(found("The crane is serviced in spring.", .5))},
		"prompt nothing":     {crane, answering()},
		"prompt down":        {crane, failing(codes.Unavailable)},
		"prompt busy":        {crane, failing(codes.ResourceExhausted)},
		"prompt late":        {crane, failing(codes.DeadlineExceeded)},
		"prompt no_contents": {crane, answering(&triskelev1.Hit{Id: "x", Score: .5})},
		"prompt failed":      {crane, failing(codes.Internal)},
		"begin ok":           {`{"hook_event_name":"SessionStart","source":"startup"}`, nil},
		"said failed":        {`{"hook_event_name":"AfterAgent"}`, nil},
	} {
		config, got := usual, ""
		config.Begin = func(context.Context, hook.Session) ([]*triskelev1.Hit, error) {
			return []*triskelev1.Hit{found("The crane is serviced in spring.", 0)}, nil
		}
		config.Ended = func(_ hook.Session, kind hook.Kind, err error) { got += string(kind) + " " + hook.Outcome(err) }
		if _, err := ask(t, x.event, x.r, config); got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}
