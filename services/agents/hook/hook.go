// Package hook answers an agent's prompt event with memories about the prompt. The process for one event is:
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
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
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
}

// Recaller sends a recall to the gateway.
type Recaller interface {
	Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
}

// Reasons to print nothing, beside those of event.go.
var (
	errLate       = errors.New("no answer in time")
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
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{nil, fmt.Errorf("panic: %v", p)}
			}
			done <- r
		}()
		r.out, r.err = answer(ctx, in, open, config)
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return nil, errLate
	}
}

func answer(ctx context.Context, in io.Reader, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	event, err := read(in)
	if err != nil {
		return nil, err
	}
	query, err := event.query()
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
		return nil, errors.New(status.Convert(err).Message())
	}
	if len(resp.GetHits()) == 0 {
		return nil, errNothing
	}
	words := len(strings.Fields(query))
	kept := resp.GetHits()[:0]
	for _, hit := range resp.GetHits() {
		if (config.Sensitive || !hit.GetMemory().GetSensitive()) && relevant(hit, words, config.MinSimilarity) {
			kept = append(kept, hit)
		}
	}
	resp.Hits = kept
	brief := briefing.New(resp, briefing.Options{MaxTokens: config.MaxTokens})
	switch {
	case brief.Text == "":
		return nil, errIrrelevant
	case config.Text:
		return []byte(brief.Text), nil
	}
	return event.answer(brief.Text)
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
