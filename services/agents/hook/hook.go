// Package hook answers an agent's events. At a session's start it gives what matters in the project, and what was said is handed to
// Config.Said: see session.go. The process for the event of a prompt is:
//
//  1. Read the event, in the JSON of whichever agent sent it, and take the query from its prompt.
//  2. Recall through the gateway what is relevant with a minimum probability.
//  3. Drop sensitive memories, and what the agent still has before it: what was said in the session, and what it was given.
//  4. Write the rest as a briefing, wrapped in the JSON that the agent expects.
//
// A hook must not disturb the agent. So it prints nothing unless it is in time and has something relevant.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// candidates is how many hits a recall returns. A long session is often the best match for its own prompts.
	candidates = 40
	// surroundings is how many memories on each side of a hit are shown as context, in the tokens that the hits leave.
	surroundings = 1
)

// Config says how to answer.
type Config struct {
	Namespaces []string
	MaxTokens  int     // of the answer, estimated
	MinScore   float64 // probability from which on a hit is relevant
	Sensitive  bool    // include sensitive memories
	Text       bool    // answer with plain text instead of the agent's JSON

	// Begin returns the memories for the start of a session, best first. Nil ignores these events.
	Begin func(context.Context, Session) ([]*triskelev1.Hit, error)
	// Said is called when an agent has answered, and before it forgets. It must return at once. Nil ignores these events.
	Said func(s Session, ended bool) error
	// Knows returns what the agent of a session has before it. Gives is called with what it is given. Forgets is called when it begins anew,
	// or is about to put a summary in place of what it has. Nil functions know and keep nothing.
	Knows   func(Session) Knowledge
	Gives   func(Session, []string)
	Forgets func(Session)
	// Ended is called once an event is answered or given up. err is Answer's, and ErrService is in it if the memory service is the
	// reason. It may be nil.
	Ended func(s Session, kind Kind, err error)
}

// Knowledge is what an agent has before it.
type Knowledge struct {
	Since time.Time // what was said in the session from then on
	Given []string  // names of what Gives was called with lately
}

// Recaller sends a recall to the gateway.
type Recaller interface {
	Recall(ctx context.Context, req *triskelev1.RecallRequest, options ...grpc.CallOption) (*triskelev1.RecallResponse, error)
}

// Reasons to print nothing that Outcome names.
var (
	errLate       = fmt.Errorf("%w does not answer in time", ErrService)
	errNothing    = errors.New("nothing was found")
	errIrrelevant = errors.New("no memory found is relevant to the prompt")
	errKnown      = errors.New("what was found was said in this session, or given to it before")
)

// Answer reads an event and returns the bytes to print. ctx must have a deadline, and Answer returns at the deadline at the
// latest. It then leaves its goroutine behind. An error says why there is no answer. It is for a person who debugs the hook:
// the agent must not see it.
func Answer(ctx context.Context, in io.Reader, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	type result struct {
		answer
		err error
	}
	done := make(chan result, 1)
	var from atomic.Pointer[event]
	ended := func(err error) error {
		if e := from.Load(); e != nil && config.Ended != nil {
			config.Ended(e.Session, e.kind(), err)
		}
		return err
	}
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("panic: %v", p)}
			}
			done <- r
		}()
		var event event
		if err := json.NewDecoder(io.LimitReader(in, mostInput)).Decode(&event); err != nil { // not to the end: agents may leave the pipe open
			r.err = fmt.Errorf("the event is not a JSON object: %w", err)
			return
		}
		from.Store(&event)
		r.answer, r.err = event.reply(ctx, open, config)
	}()
	select {
	case r := <-done:
		if len(r.given) > 0 && config.Gives != nil {
			config.Gives(from.Load().Session, r.given)
		}
		return r.text, ended(r.err)
	case <-ctx.Done():
		return nil, ended(errLate)
	}
}

// answer is what is printed, and names of what it shows of memories.
type answer struct {
	text  []byte
	given []string
}

// prompted answers the event of a prompt.
func (e event) prompted(ctx context.Context, open func(context.Context) (Recaller, error), config Config) (answer, error) {
	query, err := e.query()
	if err != nil {
		return answer{}, err
	}
	recaller, err := open(ctx)
	if err != nil {
		return answer{}, err
	}
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	req := &triskelev1.RecallRequest{
		Namespaces: config.Namespaces, Query: query, Limit: new(int32(candidates)), Surroundings: surroundings,
		Fusion:   &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED},
		MinScore: &triskelev1.MinScore{Scale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Value: config.MinScore},
		Rerank:   client.Reread(),
		Budget:   durationpb.New(max(time.Millisecond, left*8/10)), // the rest is for the network
	}
	resp, err := recaller.Recall(ctx, req)
	for status.Code(err) == codes.InvalidArgument && len(req.Namespaces) > 1 {
		at, name := 0, ""
		_, other := fmt.Sscanf(status.Convert(err).Message(), "namespaces[%d]: %q is unknown", &at, &name)
		known := slices.DeleteFunc(slices.Clone(req.Namespaces), func(namespace string) bool { return namespace == name })
		if other != nil || len(known) == len(req.Namespaces) {
			break
		}
		req.Namespaces = known // nothing was stored in that one yet
		resp, err = recaller.Recall(ctx, req)
	}
	if err != nil {
		return answer{}, failure(err)
	}
	switch {
	case resp.GetMinScoreIgnored() != "":
		return answer{}, errors.New("the gateway's fusion gives no probabilities, which the hook needs")
	case resp.GetNothingRelevant():
		return answer{}, errIrrelevant
	case len(resp.GetHits()) == 0:
		return answer{}, errNothing
	}
	if !slices.ContainsFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetMemory() != nil }) {
		return answer{}, errContents
	}
	var known Knowledge
	if e.ID != "" && config.Knows != nil {
		known = config.Knows(e.Session)
	}
	none := errIrrelevant
	resp.Hits = slices.DeleteFunc(resp.GetHits(), func(h *triskelev1.Hit) bool {
		m := h.GetMemory()
		own := e.ID != "" && m.GetThread() == e.ID && cmp.Or(m.GetOccurredAt(), m.GetCreatedAt()).AsTime().After(known.Since)
		if own {
			none = errKnown
		}
		return own || m.GetSensitive() && !config.Sensitive
	})
	return e.brief(resp, config, known, none)
}
