package gateway

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestAwayIsSaidOnce: legs whose databases do not answer are named once, however many namespaces they searched.
func TestAwayIsSaidOnce(t *testing.T) {
	searched := func(leg, namespace string, away bool, age time.Duration) outcome {
		return outcome{search: search{name: leg, namespace: namespace}, answer: &triskelev1.SearchResponse{Away: away, Age: durationpb.New(age)}}
	}
	lexical, lexical2 := searched("lexical", "a", true, 3123*time.Millisecond), searched("lexical", "b", true, 5*time.Second)
	dense, graph := searched("dense", "a", true, time.Second), searched("graph", "a", true, 0)
	for want, outcomes := range map[string][]outcome{
		"": {searched("dense", "a", false, time.Second)},
		"This recall is incomplete: the lexical leg searched what it had in memory 3.1s ago (its database does not answer).":                          {lexical},
		"This recall is incomplete: the lexical leg searched what it had in memory up to 5s ago (its database does not answer).":                      {lexical, lexical2},
		"This recall is incomplete: the lexical, dense and graph legs searched what they had in memory up to 5s ago (their databases do not answer).": {lexical, lexical2, dense, graph},
		"This recall is incomplete: the dense and lexical legs searched what they had in memory up to 3.1s ago (their databases do not answer).":      {dense, lexical},
	} {
		if got := degradation(outcomes, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNoAnswerNamesTheTime(t *testing.T) {
	for within, want := range map[time.Duration]string{
		-time.Second:             "no time was left",
		0:                        "no time was left",
		43210 * time.Nanosecond:  "no answer within 43µs",
		999 * time.Microsecond:   "no answer within 999µs",
		88123 * time.Microsecond: "no answer within 88.1ms",
	} {
		if got := noAnswer(within); got != want {
			t.Errorf("%v: got %q, want %q", within, got, want)
		}
	}
}
