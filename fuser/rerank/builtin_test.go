package rerank_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/triskele/triskele/fuser/rerank"
)

// far returns a text whose answer is far from its beginning, after some more words.
func far(more int) string {
	return strings.Repeat("The boiler room is behind the laundry. ", 30) + strings.Repeat("so ", more) +
		"Marta keeps the spare key of the archive under the blue flowerpot beside the back door. " + strings.Repeat("In winter the lights go off at ten. ", 40)
}

// TestBuiltin compares scores with what PyTorch made of the same weights. Where states become bytes, scores move by some tenths.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	most := 0.01
	if cpu.X86.HasAVX512VNNI {
		most = 0.5
	}
	model := rerank.NewBuiltin(8192)
	for query, texts := range map[string]map[string]float64{
		"can we deploy on Friday?": {
			"No releases from Friday noon on: the on-call person decides about exceptions.": 9.1942,
			"The fridge in the kitchen was repaired on Friday.":                             -12.1459,
		},
		"which port does staging use": {"Staging DB moved to port 6543 behind pgbouncer.": 4.7236},
		"Where did Ana's brother study?": {
			"Ana: my brother just finished his degree in Coimbra, can you believe it?": 3.2302,
			"Ana: my brother is coming on Saturday, I have to clean the flat.":         -11.9941,
		},
		"where is the spare key of the archive": {far(0): 11.2126},
	} {
		for text, want := range texts {
			got, err := model.Rerank(t.Context(), query, []string{text})
			if err != nil || len(got) != 1 || math.Abs(got[0]-want) > most {
				t.Errorf("%q, %.40q: %v, %v, want %v", query, text, got, err, want)
			}
		}
	}
}

// TestBuiltinReadsTheAnswer: wherever in a long text the answer is, it is read.
func TestBuiltinReadsTheAnswer(t *testing.T) {
	t.Parallel()
	model := rerank.NewBuiltin(8192)
	for more := 0; more < 40; more += 3 {
		if scores, err := model.Rerank(t.Context(), "where is the spare key of the archive", []string{far(more)}); err != nil || scores[0] < 8 {
			t.Errorf("%d words further: %v, %v, want 8 or more", more, scores, err)
		}
	}
}

// TestPassage: one rare word of the question counts more than two that are frequent, and its surroundings are read with it. Where
// two parts have the same words, the beginning is read.
func TestPassage(t *testing.T) {
	t.Parallel()
	const the, of, rare = 1996, 1997, 20000
	text := append(slices.Repeat([]int{the, of, 0, 0, 0}, 100), make([]int, 400)...)
	text[750] = rare
	part := rerank.Passage([]int{the, of, rare}, text)
	if at := slices.Index(part, rare); len(part) != 160 || at < 60 || at > 120 || !slices.Equal(part[:20], text[:20]) {
		t.Errorf("the rare word is at %d of %d tokens: %v", at, len(part), part)
	}
	text[150] = rare
	if part := rerank.Passage([]int{the, of, rare}, text); !slices.Equal(part, text[:160]) {
		t.Errorf("the passage is not the beginning: %v", part)
	}
}

// TestBuiltinReadsWhatFits: the first texts have scores, as many as fit the time and the tokens, and at least one.
func TestBuiltinReadsWhatFits(t *testing.T) {
	t.Parallel()
	short := slices.Repeat([]string{"The ferry to the island leaves at noon."}, 10)
	long := slices.Repeat([]string{strings.Repeat(short[0]+" ", 30)}, 30)
	for name, c := range map[string]struct {
		texts  []string
		pace   time.Duration
		within time.Duration
		want   int
	}{
		"all":            {texts: short, want: 10},
		"in time":        {texts: short, pace: time.Microsecond, within: time.Minute, want: 10},
		"too slow":       {texts: short, pace: time.Minute, within: time.Minute, want: 1},
		"too many words": {texts: long[:10], want: 4},
		"three are read": {texts: long[:3], want: 3},
		"more texts":     {texts: long, want: 13},
	} {
		model := rerank.NewBuiltin(8192)
		model.SetPace(c.pace)
		ctx := t.Context()
		if c.within > 0 {
			limited, cancel := context.WithTimeout(ctx, c.within)
			defer cancel()
			ctx = limited
		}
		scores, err := model.Rerank(ctx, "when does the ferry leave?", c.texts)
		if err != nil || len(scores) != c.want {
			t.Errorf("%s: %d scores, %v, want %d", name, len(scores), err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if scores, err := rerank.NewBuiltin(8192).Rerank(ended, "when does the ferry leave?", short); err == nil {
		t.Errorf("%d scores after the end", len(scores))
	}
}

// TestBuiltinLearnsItsPace: from what it has read, and from what it has not finished, but not from what nobody waited for.
func TestBuiltinLearnsItsPace(t *testing.T) {
	t.Parallel()
	model := rerank.NewBuiltin(8192)
	for _, step := range []struct {
		spent  time.Duration
		tokens int
		err    error
		want   time.Duration
	}{
		{100 * time.Millisecond, 100, nil, time.Millisecond},
		{500 * time.Millisecond, 100, nil, 2 * time.Millisecond},
		{time.Millisecond, 100, context.Canceled, 2 * time.Millisecond},
		{300 * time.Millisecond, 100, context.DeadlineExceeded, 6 * time.Millisecond},
		{time.Millisecond, 100, context.DeadlineExceeded, 6 * time.Millisecond},
	} {
		if model.Learn(step.spent, step.tokens, step.err); model.Pace() != step.want {
			t.Errorf("after %+v a token takes %v", step, model.Pace())
		}
	}
}

// BenchmarkBuiltin has the turns of a conversation, and notes of a hundred words.
func BenchmarkBuiltin(b *testing.B) {
	model := rerank.NewBuiltin(8192)
	turn := "Ana: my brother just finished his degree in Coimbra, can you believe it? We all went there by train, and my mother cried. "
	for name, text := range map[string]string{"turns": turn, "notes": strings.Repeat(turn, 4)} {
		b.Run(name, func(b *testing.B) {
			texts := slices.Repeat([]string{text}, 10)
			for b.Loop() {
				if _, err := model.Rerank(b.Context(), "Where did Ana's brother study?", texts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, err := rerank.NewBuiltin(8192).Rerank(b.Context(), "a", []string{"b"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
