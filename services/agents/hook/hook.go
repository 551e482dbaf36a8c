// Package hook answers an agent's prompt event with what is known about the prompt. It is written to do no harm: it answers
// within its time or not at all, and rather not than beside the point.
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

// candidates is how many memories are looked at.
const candidates = 20

// Config says what a prompt gets.
type Config struct {
	Namespaces    []string
	MaxTokens     int     // of the answer, estimated
	MinSimilarity float64 // see relevant
	Sensitive     bool    // also memories that are to be kept from models
	Text          bool    // answer with text, and not in the agent's JSON
}

// Recaller is what is asked.
type Recaller interface {
	Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)
}

// Reasons to say nothing, beside those of event.go.
var (
	errLate    = errors.New("the time is up")
	errNothing = errors.New("nothing was found")
	errBeside  = errors.New("what was found is not like the prompt")
)

// Answer reads an event and returns what to print. It returns when ctx ends at the latest, leaving behind what has not ended
// by then; ctx must have a deadline. Without an answer it returns an error that says why, which is for people who wonder: nothing
// of it may reach the agent.
func Answer(ctx context.Context, in io.Reader, open func(context.Context) (Recaller, error), config Config) ([]byte, error) {
	type outcome struct {
		out []byte
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{nil, fmt.Errorf("panic: %v", p)}
			}
			done <- o
		}()
		o.out, o.err = answer(ctx, in, open, config)
	}()
	select {
	case o := <-done:
		return o.out, o.err
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
		Budget: durationpb.New(max(time.Millisecond, left*8/10)), // the rest is for the way there and back
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
		return nil, errBeside
	case config.Text:
		return []byte(brief.Text), nil
	}
	return event.answer(brief.Text)
}

// relevant says whether a hit is worth a model's attention. A rank says nothing about that: something is always first. So
// either its cosine to the prompt has to be at least similarity, or it has two of the prompt's words and these are at least
// half as many as the prompt has.
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
