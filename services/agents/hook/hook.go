// Package hook answers an agent's events. At a session's start it gives what matters in the project, and what was said is handed to
// Config.Said: see session.go. The process for the event of a prompt is:
//
//  1. Read the event, in the JSON of whichever agent sent it, and take the query from its prompt.
//  2. Recall a few candidates through the gateway, with explain.
//  3. Keep the relevant ones: a high cosine similarity, or enough of the prompt's words. Drop sensitive ones.
//  4. Write the rest as a briefing, wrapped in the JSON that the agent expects.
//
// A hook must not disturb the agent. So it prints nothing unless it is in time and has something relevant.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// candidates is how many hits a recall returns, before the irrelevant ones are dropped.
const candidates = 20

// Config says how to answer.
type Config struct {
	Namespaces    []string
	MaxTokens     int     // of the answer, estimated
	MinSimilarity float64 // the cosine from which on a hit is relevant
	Sensitive     bool    // include sensitive memories
	Text          bool    // answer with plain text instead of the agent's JSON

	// Begin returns the memories for the start of a session, best first. Nil ignores these events.
	Begin func(context.Context, Session) ([]*triskelev1.Hit, error)
	// Said is called when an agent has answered, and before it forgets. It must return at once. Nil ignores these events.
	Said func(Session) error
	// Trouble is called if the memory service is why there is no answer. It may be nil.
	Trouble func(Session, error)
}

// Recaller sends a recall to the gateway.
type Recaller interface {
	Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
}

// Reasons to print nothing, beside those of event.go.
var (
	errLate       = fmt.Errorf("%w does not answer in time", ErrService)
	errNothing    = errors.New("nothing was found")
	errIrrelevant = errors.New("no memory found is relevant to the prompt")
)

// Answer reads an event and returns the bytes to print. ctx must have a deadline, and Answer returns at the deadline at the
// latest. It then leaves its goroutine behind. An error says why there is no answer. It is for a person who debugs the hook:
// the agent must not see it.
func Answer(ctx context.Context, in io.Reader, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	var session atomic.Pointer[Session]
	trouble := func(err error) error {
		if from := session.Load(); from != nil && config.Trouble != nil && errors.Is(err, ErrService) {
			config.Trouble(*from, err)
		}
		return err
	}
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{nil, fmt.Errorf("panic: %v", p)}
			}
			done <- r
		}()
		event, err := read(in)
		if err != nil {
			r.err = err
			return
		}
		session.Store(&event.Session)
		r.out, r.err = event.reply(ctx, open, config)
	}()
	select {
	case r := <-done:
		return r.out, trouble(r.err)
	case <-ctx.Done():
		return nil, trouble(errLate)
	}
}

// prompted answers the event of a prompt.
func (e event) prompted(ctx context.Context, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	query, err := e.query()
	if err != nil {
		return nil, err
	}
	recaller, err := open(ctx)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	limit := int32(candidates)
	resp, err := recaller.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: config.Namespaces, Query: query, Limit: &limit, Explain: true,
		Budget: durationpb.New(max(time.Millisecond, left*8/10)), // the rest is for the network
	})
	if err != nil {
		return nil, failure(err)
	}
	if len(resp.GetHits()) == 0 {
		return nil, errNothing
	}
	if !slices.ContainsFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetMemory() != nil }) {
		return nil, errContents
	}
	words := len(strings.Fields(query))
	kept := resp.GetHits()[:0]
	for _, hit := range resp.GetHits() {
		if (config.Sensitive || !hit.GetMemory().GetSensitive()) && relevant(hit, words, config.MinSimilarity) {
			kept = append(kept, hit)
		}
	}
	resp.Hits = kept
	return e.brief(resp, config, errIrrelevant)
}

// relevant reports whether a hit is worth a model's attention. The rank cannot decide that: some hit is always first. A hit is
// relevant if its cosine similarity to the prompt is at least similarity. It is also relevant if it matches at least two words,
// and at least half as many as the prompt has.
func relevant(hit *triskelev1.Hit, words int, similarity float64) bool {
	for _, c := range hit.GetContributions() {
		if c.GetScoreKind() == triskelev1.ScoreKind_SCORE_KIND_COSINE && c.GetRawScore() >= similarity {
			return true
		}
	}
	matched := map[string]bool{}
	collect(matched, hit.GetMemory().GetTitle(), hit.GetMatches().GetTitle())
	collect(matched, hit.GetMemory().GetContent(), hit.GetMatches().GetContent())
	return len(matched) >= 2 && 2*len(matched) >= words
}

// collect adds the words in the given ranges of a text.
func collect(to map[string]bool, text string, ranges []*triskelev1.TextRange) {
	for _, r := range ranges {
		if from, end := int(r.GetStart()), int(r.GetEnd()); 0 <= from && from < end && end <= len(text) {
			to[strings.ToLower(text[from:end])] = true
		}
	}
}
